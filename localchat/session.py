"""One conversation and its turns: asks, saves as the answer streams, branches.

Owns where a conversation stands (its leaf) and when something is saved. Knows
nothing of screens, nor of which backend answers: that is dispatch's business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Protocol

from localchat.history import ConversationInfo, History, State, StoredMessage
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Failed,
    Finished,
    Message,
    Reclassified,
    ResponseFormat,
    Sampling,
    Timings,
    Usage,
)

SAVE_EVERY_S = 0.2
"""A kill -9 loses at most this much of an answer (the promise is 250 ms)."""

SUMMARY_PROMPT = (
    "Summarise the conversation so far in a few short sentences. Keep names, numbers, "
    "decisions and open questions. Write only the summary."
)


class Dispatcher(Protocol):
    def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]: ...


@dataclass(frozen=True, slots=True)
class Started:
    """The user's message is saved and the (still empty) reply exists."""

    user: StoredMessage | None
    reply: StoredMessage


TurnEvent = Started | Event


@dataclass(slots=True)
class _Reply:
    """The answer as it grows, and what is saved of it."""

    content: str = ""
    reasoning: str = ""
    model: str = ""
    usage: Usage | None = None
    timings: Timings | None = None
    saved_at: float = field(default_factory=time.monotonic)

    def take(self, event: Event) -> None:
        match event:
            case Delta(text, "text"):
                self.content += text
            case Delta(text, "reasoning"):
                self.reasoning += text
            case Reclassified():
                self.reasoning, self.content = self.reasoning + self.content, ""
            case Finished():
                self.usage, self.timings, self.model = event.usage, event.timings, event.model
            case _:
                pass


class Session:
    """A conversation in progress. One turn at a time; reading its events runs it.

    Cancelling the task that reads a turn, or closing its iterator, stops the
    model and keeps the partial reply, marked as stopped.
    """

    def __init__(self, history: History, dispatch: Dispatcher, sampling: Sampling, system: str = "") -> None:
        self.history = history
        self.dispatch = dispatch
        self.sampling = sampling
        self.response_format: ResponseFormat | None = None
        self._system = system  # of a conversation that does not exist yet
        self._conversation: ConversationInfo | None = None

    # -- where the conversation stands

    @property
    def conversation(self) -> ConversationInfo | None:
        """None until the first message is sent: nothing blank is ever stored."""
        return self._conversation

    @property
    def system(self) -> str:
        return self._conversation.system if self._conversation else self._system

    @system.setter
    def system(self, text: str) -> None:
        self._system = text
        if self._conversation:
            self.history.set_system(self._conversation.id, text)
            self._refresh()

    @property
    def leaf_id(self) -> int | None:
        return self._conversation.leaf_id if self._conversation else None

    def open(self, conversation_id: int) -> None:
        self._conversation = self.history.conversation(conversation_id)

    def start_new(self) -> None:
        self._conversation = None

    def resume_from(self, message_id: int) -> None:
        """Stand at ``message_id``: the next message branches from there."""
        message = self.history.message(message_id)
        self.history.set_leaf(message.conversation_id, message_id)
        self.open(message.conversation_id)

    def switch_branch(self, message_id: int, step: int) -> None:
        """Stand on the branch ``step`` siblings away from ``message_id``, where it was left."""
        siblings = self.history.siblings(message_id)
        at = next(i for i, sibling in enumerate(siblings) if sibling.id == message_id)
        chosen = siblings[(at + step) % len(siblings)]
        self.resume_from(self.history.leaf_below(chosen.id))

    def transcript(self) -> list[StoredMessage]:
        """The messages from the first to the leaf."""
        return self.history.path(self.leaf_id) if self.leaf_id is not None else []

    # -- turns

    async def send(self, text: str) -> AsyncGenerator[TurnEvent, None]:
        """Say ``text`` at the leaf and stream the reply."""
        if self._conversation is None:
            self._conversation = self.history.new_conversation(system=self._system)
        user = self.history.add(self._conversation.id, self.leaf_id, "user", text)
        self._refresh()
        async with aclosing(self._reply_to(user.id, user)) as events:
            async for event in events:
                yield event

    async def edit(self, message_id: int, text: str) -> AsyncGenerator[TurnEvent, None]:
        """Say ``text`` in place of the user message ``message_id``, as a new branch."""
        old = self.history.message(message_id)
        user = self.history.add(old.conversation_id, old.parent_id, "user", text)
        self.open(old.conversation_id)
        async with aclosing(self._reply_to(user.id, user)) as events:
            async for event in events:
                yield event

    async def regenerate(self, message_id: int) -> AsyncGenerator[TurnEvent, None]:
        """Answer again beside the reply ``message_id`` (or below a user message)."""
        message = self.history.message(message_id)
        parent_id = message.id if message.role == "user" else message.parent_id
        if parent_id is None:
            raise ValueError("a reply without a question cannot be regenerated")
        self.open(message.conversation_id)
        async with aclosing(self._reply_to(parent_id, None)) as events:
            async for event in events:
                yield event

    async def _reply_to(self, parent_id: int, user: StoredMessage | None) -> AsyncGenerator[TurnEvent, None]:
        assert self._conversation is not None
        request = self.request_for(self.history.path(parent_id))
        reply = self.history.add(self._conversation.id, parent_id, "assistant", "", state="streaming")
        self._refresh()
        yield Started(user, reply)
        growing = _Reply()
        state: State = "stopped"  # unless the stream says otherwise
        try:
            async with aclosing(self.dispatch.stream(request)) as events:
                async for event in events:
                    growing.take(event)
                    if isinstance(event, Finished | Failed):
                        state = "done" if isinstance(event, Finished) else "failed"
                        await self._save(reply.id, growing, state)
                    elif time.monotonic() - growing.saved_at >= SAVE_EVERY_S:
                        await self._save(reply.id, growing, "streaming")
                    yield event
        finally:
            if state == "stopped":
                self._save_now(reply.id, growing, state)
            self._refresh()

    async def _save(self, reply_id: int, reply: _Reply, state: State) -> None:
        # A disk may take its time; the screen must not wait for it.
        await asyncio.shield(asyncio.to_thread(self._save_now, reply_id, replace(reply), state))
        reply.saved_at = time.monotonic()

    def _save_now(self, reply_id: int, reply: _Reply, state: State) -> None:
        self.history.update(
            reply_id,
            content=reply.content,
            reasoning=reply.reasoning,
            state=state,
            model=reply.model,
            usage=reply.usage,
            timings=reply.timings,
        )

    # -- what the model sees

    def request_for(self, path: Sequence[StoredMessage]) -> ChatRequest:
        """The request for a reply to ``path``: excluded turns and reasoning left out."""
        return ChatRequest(tuple(self._visible(path)), self.sampling, self.response_format)

    def _visible(self, path: Iterable[StoredMessage]) -> Iterable[Message]:
        shown = [m for m in path if not m.excluded]
        system = [self.system] if self.system else []
        system += [f"Earlier in this conversation: {m.content}" for m in shown if m.kind == "summary"]
        if system:
            yield Message("system", "\n\n".join(system))
        for message in shown:
            if message.kind == "message" and (message.content or message.role == "user"):
                yield Message(message.role, message.content)

    # -- making room

    def drop(self, message_ids: Sequence[int]) -> None:
        """Leave messages out of what the model sees. Undone by :meth:`restore`."""
        self.history.set_excluded(message_ids, True)

    def restore(self, message_ids: Sequence[int]) -> None:
        self.history.set_excluded(message_ids, False)

    async def summarise(self, message_ids: Sequence[int]) -> AsyncGenerator[Event, None]:
        """Replace messages by the model's summary of them: they stay in the history, left out.

        The summary is a message of its own at the leaf. Undone by restoring the
        messages and dropping the summary.
        """
        assert self._conversation is not None
        chosen = [m for m in self.transcript() if m.id in set(message_ids)]
        ask = Message("user", SUMMARY_PROMPT)
        sampling = replace(self.sampling, temperature=0.0, max_tokens=256, stop=())
        request = ChatRequest((*self._visible(chosen), ask), sampling)
        summary = _Reply()
        finished = False
        async with aclosing(self.dispatch.stream(request)) as events:
            async for event in events:
                summary.take(event)
                finished = isinstance(event, Finished)
                yield event
        if finished and summary.content.strip():
            self.history.add(
                self._conversation.id, self.leaf_id, "system", summary.content.strip(), kind="summary"
            )
            self.drop(message_ids)
            self._refresh()

    def _refresh(self) -> None:
        if self._conversation:
            self._conversation = self.history.conversation(self._conversation.id)
