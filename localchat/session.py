"""One conversation and its turns: asks, keeps what is answered, branches, makes room.

Owns where a conversation stands (its leaf) and what the model sees of it. Knows
nothing of screens, nor of which backend answers: that is dispatch's business; how
an answer gets into the store is :mod:`localchat.reply`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

from localchat.history import ConversationInfo, History, StoredMessage
from localchat.reply import Reply, Saver
from localchat.room import Room
from router.decision import Decision, Mode, Turn
from router.request import (
    ChatRequest,
    Event,
    Failed,
    Finished,
    Message,
    Notice,
    ResponseFormat,
    Sampling,
)


class Dispatcher(Protocol):
    def stream(self, request: ChatRequest, turn: Turn) -> AsyncGenerator[Event, None]: ...

    async def decide(self, request: ChatRequest, turn: Turn) -> Decision:
        """Which way it would go. Raises a RouterError where there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Started:
    """The user's message is saved and the (still empty) reply exists."""

    user: StoredMessage | None
    reply: StoredMessage


TurnEvent = Started | Event


class Session:
    """A conversation in progress. One turn at a time; reading its events runs it.

    Cancelling the task that reads a turn, or closing its iterator, stops the
    model and keeps the partial reply, marked as stopped. Where the store cannot
    be written a turn says so once (Notice) and goes on; if saving fails at its end
    too it raises HistoryError after its last event, and the reply is kept in memory
    and saved with the next turn.
    """

    def __init__(
        self,
        history: History,
        dispatch: Dispatcher,
        sampling: Sampling,
        system: str = "",
        mode: Mode = "local",
    ) -> None:
        self.history = history
        self.dispatch = dispatch
        self.mode: Mode = mode
        self.sampling = sampling
        self.response_format: ResponseFormat | None = None
        self._system = system  # of a conversation that does not exist yet
        self._pinned = False  # likewise
        self._conversation: ConversationInfo | None = None
        self._unsaved: dict[int, Saver] = {}  # replies the store did not take, by their id
        self.room = Room(self)

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
    def pinned(self) -> bool:
        """Whether this conversation is answered on this machine only, whatever the mode."""
        return self._conversation.pinned if self._conversation else self._pinned

    @pinned.setter
    def pinned(self, pinned: bool) -> None:
        self._pinned = pinned
        if self._conversation:
            self.history.pin(self._conversation.id, pinned)
            self._refresh()

    @property
    def leaf_id(self) -> int | None:
        """Where this session stands, whatever others do to the conversation meanwhile."""
        return self._conversation.leaf_id if self._conversation else None

    def open(self, conversation_id: int) -> None:
        self._conversation = self.history.conversation(conversation_id)

    def start_new(self) -> None:
        self._conversation, self._pinned = None, False

    def resume_from(self, message_id: int) -> None:
        """Stand at ``message_id``: the next message branches from there."""
        message = self.history.message(message_id)
        self.history.set_leaf(message.conversation_id, message_id)
        self.open(message.conversation_id)
        self.stand_at(message_id)

    def switch_branch(self, message_id: int, step: int) -> None:
        """Stand on the branch ``step`` siblings away from ``message_id``, where it was left."""
        siblings = self.history.siblings(message_id)
        at = next(i for i, sibling in enumerate(siblings) if sibling.id == message_id)
        chosen = siblings[(at + step) % len(siblings)]
        self.resume_from(self.history.leaf_below(chosen.id))

    def transcript(self) -> list[StoredMessage]:
        """The messages from the first to the leaf."""
        return self._path(self.leaf_id) if self.leaf_id is not None else []

    def message(self, message_id: int) -> StoredMessage:
        """As it is stored, or as it is in memory where the store did not take it."""
        unsaved = self._unsaved.get(message_id)
        return unsaved.in_memory() if unsaved else self.history.message(message_id)

    def _path(self, message_id: int) -> list[StoredMessage]:
        path = self.history.path(message_id)
        return [self._unsaved[m.id].in_memory() if m.id in self._unsaved else m for m in path]

    # -- turns

    async def send(self, text: str, mode: Mode | None = None) -> AsyncGenerator[TurnEvent, None]:
        """Say ``text`` at the leaf and stream the reply; ``mode`` overrides the session's for this turn."""
        if self._conversation is None:
            self._conversation = self.history.new_conversation(system=self._system)
            if self._pinned:
                self.pinned = True
        user = self.history.add(self._conversation.id, self.leaf_id, "user", text)
        self.stand_at(user.id)
        async with aclosing(self._reply_to(user.id, user, mode)) as events:
            async for event in events:
                yield event

    async def edit(self, message_id: int, text: str) -> AsyncGenerator[TurnEvent, None]:
        """Say ``text`` in place of the user message ``message_id``, as a new branch."""
        old = self.history.message(message_id)
        user = self.history.add(old.conversation_id, old.parent_id, "user", text)
        self.open(old.conversation_id)
        self.stand_at(user.id)
        async with aclosing(self._reply_to(user.id, user)) as events:
            async for event in events:
                yield event

    async def regenerate(
        self, message_id: int, mode: Mode | None = None, *, fresh: bool = True
    ) -> AsyncGenerator[TurnEvent, None]:
        """Answer again beside the reply ``message_id`` (or below a user message).

        Not ``fresh``: a stored answer would do.
        """
        message = self.history.message(message_id)
        parent_id = message.id if message.role == "user" else message.parent_id
        if parent_id is None:
            raise ValueError("a reply without a question cannot be regenerated")
        self.open(message.conversation_id)
        async with aclosing(self._reply_to(parent_id, None, mode, fresh=fresh)) as events:
            async for event in events:
                yield event

    async def go_on(self, message_id: int) -> AsyncGenerator[TurnEvent, None]:
        """Go on with the unfinished reply ``message_id`` from its end, in place."""
        message = self.message(message_id)
        self.open(message.conversation_id)
        self.stand_at(message_id)
        request = self.request_for(self._path(message_id))
        async with aclosing(self._stream(request, message, None, self.turn(fresh=True))) as events:
            async for event in events:
                yield event

    async def _reply_to(
        self, parent_id: int, user: StoredMessage | None, mode: Mode | None = None, *, fresh: bool = False
    ) -> AsyncGenerator[TurnEvent, None]:
        assert self._conversation is not None
        self._save_unsaved()
        request = self.request_for(self._path(parent_id))
        stored = self.history.add(self._conversation.id, parent_id, "assistant", "", state="streaming")
        self.stand_at(stored.id)
        turn = self.turn(mode, fresh=fresh)
        async with aclosing(self._stream(request, stored, user, turn)) as events:
            async for event in events:
                yield event

    async def _stream(
        self, request: ChatRequest, stored: StoredMessage, user: StoredMessage | None, turn: Turn
    ) -> AsyncGenerator[TurnEvent, None]:
        """The answer to ``request`` into ``stored``, after what it holds already."""
        reply = Reply(stored.content, stored.reasoning)
        saver = Saver(self.history, stored, reply)
        saving, told = asyncio.create_task(saver.run()), False
        try:
            yield Started(user, stored)
            async with aclosing(self.dispatch.stream(request, turn)) as events:
                async for event in events:
                    reply.take(event)
                    if isinstance(event, Finished | Failed):
                        await asyncio.to_thread(saver.finish)
                    elif saver.error and not told:
                        told = True
                        yield Notice(f"This answer is not being saved. {saver.error}")
                    yield event
        except Exception:
            reply.state = "failed"
            raise
        finally:
            saving.cancel()
            if reply.state == "streaming":
                reply.state = "stopped"
            self._end(stored.id, saver)

    def turn(self, mode: Mode | None = None, *, fresh: bool = False) -> Turn:
        """``fresh``: asked again on purpose, so that a stored answer is not what is wanted."""
        conversation = str(self._conversation.id) if self._conversation else ""
        return Turn(mode or self.mode, conversation, self.pinned, fresh)

    def _end(self, reply_id: int, saver: Saver) -> None:
        saver.finish()
        if saver.error:
            self._unsaved[reply_id] = saver
            raise saver.error
        self._refresh()

    def _save_unsaved(self) -> None:
        self._unsaved = {number: saver for number, saver in self._unsaved.items() if not saver.retry()}

    # -- what the model sees

    def request_for(self, path: Sequence[StoredMessage]) -> ChatRequest:
        """The request for a reply to ``path``: excluded turns and reasoning left out."""
        return ChatRequest(tuple(self.visible(path)), self.sampling, self.response_format)

    def request_if_sent(self, text: str) -> ChatRequest:
        """The request that sending ``text`` at the leaf would make."""
        messages = (*self.visible(self.transcript()), Message("user", text))
        return ChatRequest(messages, self.sampling, self.response_format)

    def visible(self, path: Iterable[StoredMessage]) -> Iterable[Message]:
        shown = [m for m in path if not m.excluded]
        system = [self.system] if self.system else []
        system += [f"Earlier in this conversation: {m.content}" for m in shown if m.kind == "summary"]
        if system:
            yield Message("system", "\n\n".join(system))
        for message in shown:
            if message.kind == "message" and (message.content or message.role == "user"):
                yield Message(message.role, message.content)

    def stand_at(self, leaf_id: int | None) -> None:
        if self._conversation:
            stored = self.history.conversation(self._conversation.id)
            self._conversation = replace(stored, leaf_id=leaf_id)  # another session may stand elsewhere

    def _refresh(self) -> None:
        self.stand_at(self.leaf_id)
