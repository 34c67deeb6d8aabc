"""Making room in a conversation that no longer fits: which turns go, or what stands for them.

Owns the choice of turns and the asking for a summary. Nothing is lost: what is left out
stays in the history and can be taken back in.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from localchat.history import StoredMessage
from localchat.history.text import title_from
from localchat.reply import Reply
from router.errors import ContextOverflow, RouterError
from router.request import ChatRequest, Event, Failed, Finished, Message

if TYPE_CHECKING:
    from localchat.session import Session, TurnEvent

SUMMARY_TOKENS = 256
SUMMARY_ROOM_TOKENS = SUMMARY_TOKENS + 16
"""What must be free for a summary and the few words that introduce it."""

SUMMARY_PROMPT = (
    "Summarise the conversation so far in a few short sentences. Keep names, numbers, "
    "decisions and open questions. Write only the summary."
)


CountTokens = Callable[[Sequence[Message]], Awaitable[int]]
"""By the model's own tokenizer, template included: :meth:`router.backend.LocalModel.count_tokens`."""


@dataclass(frozen=True, slots=True)
class OldTurn:
    """A question with its answers, or a summary: left out as a whole. ``words`` are its first ones."""

    message_ids: tuple[int, ...]
    words: str


class Room:
    """The room of one session's conversation."""

    def __init__(self, session: Session) -> None:
        self._session = session

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
            return await count(tuple(self._session.visible(m for m in path if m.id not in gone)))

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
        path = self._session.transcript()
        while path and path[-1].role != "user":
            path.pop()
        return path

    def drop(self, message_ids: Sequence[int]) -> None:
        """Leave messages out of what the model sees. Undone by :meth:`restore`."""
        self._session.history.set_excluded(message_ids, True)

    def restore(self, message_ids: Sequence[int]) -> None:
        self._session.history.set_excluded(message_ids, False)

    async def summarise(self, message_ids: Sequence[int]) -> AsyncGenerator[Event, None]:
        """Replace messages by the model's summary of them: they stay in the history, left out.

        The summary is a message of its own at the leaf, there before Finished is
        seen. Undone by restoring the messages and dropping the summary.
        """
        assert self._session.conversation is not None
        chosen = [m for m in self._session.transcript() if m.id in set(message_ids)]
        ask = Message("user", SUMMARY_PROMPT)
        sampling = replace(self._session.sampling, temperature=0.0, max_tokens=SUMMARY_TOKENS, stop=())
        request = ChatRequest((*self._session.visible(chosen), ask), sampling)
        summary = Reply()
        async with aclosing(self._session.dispatch.stream(request, self._session.turn())) as events:
            async for event in events:
                summary.take(event)
                if not isinstance(event, Finished):
                    yield event
                elif text := summary.content.strip():
                    added = self._session.history.add(
                        self._session.conversation.id, self._session.leaf_id, "system", text, kind="summary"
                    )
                    self.drop(message_ids)
                    self._session.stand_at(added.id)
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
            if self._session.transcript()[-1].kind != "summary":
                return
            turn = self._session.send(question.content)
        else:
            self.drop(message_ids)
            turn = self._session.regenerate(question.id)
        async with aclosing(turn) as answer:
            async for said in answer:
                yield said

    async def _summarise_before(
        self, question: StoredMessage, message_ids: Sequence[int]
    ) -> AsyncGenerator[Event, None]:
        """The summary has to stand before the question, so that is to be asked again below it."""
        stood_at = self._session.leaf_id
        assert question.parent_id is not None
        assert stood_at is not None
        self._session.resume_from(question.parent_id)
        try:
            async with aclosing(self.summarise(message_ids)) as events:
                async for event in events:
                    yield event
        finally:
            if self._session.leaf_id == question.parent_id:  # no summary came of it
                self._session.resume_from(stood_at)
