"""One conversation and its turns: asks, keeps what is answered, branches, makes room.

Owns where a conversation stands (its leaf) and what the model sees of it. Knows
nothing of screens, nor of which backend answers: that is dispatch's business; how
an answer gets into the store is :mod:`localchat.reply`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Protocol

from localchat.history import ConversationInfo, History, StoredMessage
from localchat.history.text import title_from
from localchat.reply import Reply, Saver
from router.errors import ContextOverflow, RouterError
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

SUMMARY_TOKENS = 256
SUMMARY_ROOM_TOKENS = SUMMARY_TOKENS + 16
"""What must be free for a summary and the few words that introduce it."""

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


CountTokens = Callable[[Sequence[Message]], Awaitable[int]]
"""By the model's own tokenizer, template included: :meth:`router.backend.LocalModel.count_tokens`."""


@dataclass(frozen=True, slots=True)
class OldTurn:
    """A question with its answers, or a summary: left out as a whole. ``words`` are its first ones."""

    message_ids: tuple[int, ...]
    words: str


class Session:
    """A conversation in progress. One turn at a time; reading its events runs it.

    Cancelling the task that reads a turn, or closing its iterator, stops the
    model and keeps the partial reply, marked as stopped. Where the store cannot
    be written a turn says so once (Notice) and goes on; if saving fails at its end
    too it raises HistoryError after its last event, and the reply is kept in memory
    and saved with the next turn.
    """

    def __init__(self, history: History, dispatch: Dispatcher, sampling: Sampling, system: str = "") -> None:
        self.history = history
        self.dispatch = dispatch
        self.sampling = sampling
        self.response_format: ResponseFormat | None = None
        self._system = system  # of a conversation that does not exist yet
        self._conversation: ConversationInfo | None = None
        self._unsaved: dict[int, Saver] = {}  # replies the store did not take, by their id

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
        """Where this session stands, whatever others do to the conversation meanwhile."""
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
        self._stand_at(message_id)

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

    async def send(self, text: str) -> AsyncGenerator[TurnEvent, None]:
        """Say ``text`` at the leaf and stream the reply."""
        if self._conversation is None:
            self._conversation = self.history.new_conversation(system=self._system)
        user = self.history.add(self._conversation.id, self.leaf_id, "user", text)
        self._stand_at(user.id)
        async with aclosing(self._reply_to(user.id, user)) as events:
            async for event in events:
                yield event

    async def edit(self, message_id: int, text: str) -> AsyncGenerator[TurnEvent, None]:
        """Say ``text`` in place of the user message ``message_id``, as a new branch."""
        old = self.history.message(message_id)
        user = self.history.add(old.conversation_id, old.parent_id, "user", text)
        self.open(old.conversation_id)
        self._stand_at(user.id)
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

    async def go_on(self, message_id: int) -> AsyncGenerator[TurnEvent, None]:
        """Go on with the unfinished reply ``message_id`` from its end, in place."""
        message = self.message(message_id)
        self.open(message.conversation_id)
        self._stand_at(message_id)
        request = self.request_for(self._path(message_id))
        async with aclosing(self._stream(request, message, None)) as events:
            async for event in events:
                yield event

    async def _reply_to(self, parent_id: int, user: StoredMessage | None) -> AsyncGenerator[TurnEvent, None]:
        assert self._conversation is not None
        self._save_unsaved()
        request = self.request_for(self._path(parent_id))
        stored = self.history.add(self._conversation.id, parent_id, "assistant", "", state="streaming")
        self._stand_at(stored.id)
        async with aclosing(self._stream(request, stored, user)) as events:
            async for event in events:
                yield event

    async def _stream(
        self, request: ChatRequest, stored: StoredMessage, user: StoredMessage | None
    ) -> AsyncGenerator[TurnEvent, None]:
        """The answer to ``request`` into ``stored``, after what it holds already."""
        reply = Reply(stored.content, stored.reasoning)
        saver = Saver(self.history, stored, reply)
        saving, told = asyncio.create_task(saver.run()), False
        try:
            yield Started(user, stored)
            async with aclosing(self.dispatch.stream(request)) as events:
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

    def old_turns(self) -> list[OldTurn]:
        """What may be left out: the turns before the last question that the model sees, oldest first."""
        turns: list[list[StoredMessage]] = []
        for message in self._up_to_question()[:-1]:
            if message.excluded:
                continue
            if message.role == "user" or message.kind == "summary" or not turns:
                turns.append([])
            turns[-1].append(message)
        return [OldTurn(tuple(m.id for m in turn), title_from(turn[0].content)) for turn in turns]

    async def turns_in_the_way(
        self, overflow: ContextOverflow, count: CountTokens, spare_tokens: int = 0
    ) -> list[OldTurn]:
        """The fewest of the oldest turns without which the last question fits.

        The system prompt and the question always stay. ``spare_tokens`` are to be
        left, for example for a summary. Raises ContextOverflow when leaving all of
        them out is not enough.
        """
        path, turns = self._up_to_question(), self.old_turns()
        reserved = overflow.reserved_tokens + spare_tokens

        async def tokens_without(number: int) -> int:
            gone = {i for turn in turns[:number] for i in turn.message_ids}
            return await count(tuple(self._visible(m for m in path if m.id not in gone)))

        least = await tokens_without(len(turns))
        if not turns or least + reserved > overflow.window_tokens:
            raise ContextOverflow(least, overflow.window_tokens, reserved)
        low, high = 1, len(turns)
        while low < high:  # leaving out more never makes it longer
            middle = (low + high) // 2
            if await tokens_without(middle) + reserved > overflow.window_tokens:
                low = middle + 1
            else:
                high = middle
        return turns[:high]

    def _up_to_question(self) -> list[StoredMessage]:
        path = self.transcript()
        while path and path[-1].role != "user":
            path.pop()
        return path

    def drop(self, message_ids: Sequence[int]) -> None:
        """Leave messages out of what the model sees. Undone by :meth:`restore`."""
        self.history.set_excluded(message_ids, True)

    def restore(self, message_ids: Sequence[int]) -> None:
        self.history.set_excluded(message_ids, False)

    async def summarise(self, message_ids: Sequence[int]) -> AsyncGenerator[Event, None]:
        """Replace messages by the model's summary of them: they stay in the history, left out.

        The summary is a message of its own at the leaf, there before Finished is
        seen. Undone by restoring the messages and dropping the summary.
        """
        assert self._conversation is not None
        chosen = [m for m in self.transcript() if m.id in set(message_ids)]
        ask = Message("user", SUMMARY_PROMPT)
        sampling = replace(self.sampling, temperature=0.0, max_tokens=SUMMARY_TOKENS, stop=())
        request = ChatRequest((*self._visible(chosen), ask), sampling)
        summary = Reply()
        async with aclosing(self.dispatch.stream(request)) as events:
            async for event in events:
                summary.take(event)
                if not isinstance(event, Finished):
                    yield event
                elif text := summary.content.strip():
                    added = self.history.add(
                        self._conversation.id, self.leaf_id, "system", text, kind="summary"
                    )
                    self.drop(message_ids)
                    self._stand_at(added.id)
                    yield event
                else:
                    yield Failed(
                        RouterError("The model gave no summary.", "Try again, or leave the turns out.")
                    )

    async def answer_without(
        self, message_ids: Sequence[int], *, summarise: bool = False
    ) -> AsyncGenerator[TurnEvent, None]:
        """Answer the last question again with messages left out, or with a summary in their place.

        What comes before Started belongs to the summary. When there is none, Failed
        is the last event and everything stands as before.
        """
        question = self._up_to_question()[-1]
        if summarise:
            async with aclosing(self._summarise_before(question, message_ids)) as events:
                async for event in events:
                    yield event
            if self.transcript()[-1].kind != "summary":
                return
            turn = self.send(question.content)
        else:
            self.drop(message_ids)
            turn = self.regenerate(question.id)
        async with aclosing(turn) as answer:
            async for said in answer:
                yield said

    async def _summarise_before(
        self, question: StoredMessage, message_ids: Sequence[int]
    ) -> AsyncGenerator[Event, None]:
        """The summary has to stand before the question, so that is to be asked again below it."""
        stood_at = self.leaf_id
        assert question.parent_id is not None
        assert stood_at is not None
        self.resume_from(question.parent_id)
        try:
            async with aclosing(self.summarise(message_ids)) as events:
                async for event in events:
                    yield event
        finally:
            if self.leaf_id == question.parent_id:  # no summary came of it
                self.resume_from(stood_at)

    def _stand_at(self, leaf_id: int | None) -> None:
        if self._conversation:
            stored = self.history.conversation(self._conversation.id)
            self._conversation = replace(stored, leaf_id=leaf_id)  # another session may stand elsewhere

    def _refresh(self) -> None:
        self._stand_at(self.leaf_id)
