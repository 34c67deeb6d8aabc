"""Making room: the fewest oldest turns go, never the system prompt or the question, and it can be undone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localchat.history import History
from localchat.room import SUMMARY_PROMPT, OldTurn
from localchat.session import Session, Started, TurnEvent
from router.dispatch import Dispatch
from router.errors import BackendCrashed, ContextOverflow, RouterError
from router.request import ChatRequest, Event, Failed, Finished, Message, Sampling
from router.scripted import ScriptedBackend

RESERVED = 2


@dataclass
class Narrow:
    """Refuses what does not fit ``window`` words; each message costs one more, the template's own are 3."""

    window: int = 10_000
    summary: str = "They counted."
    error: RouterError | None = None
    requests: list[ChatRequest] = field(default_factory=list)
    counts: int = 0
    model: str = "narrow"

    async def count(self, messages: Sequence[Message]) -> int:
        self.counts += 1
        return 3 + sum(1 + len(message.content.split()) for message in messages)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        tokens = await self.count(request.messages)
        is_summary = request.messages[-1].content == SUMMARY_PROMPT
        if tokens + RESERVED > self.window and not is_summary:
            raise ContextOverflow(tokens, self.window, RESERVED)
        if self.error:
            raise self.error
        async for event in ScriptedBackend([self.summary if is_summary else "fine"]).stream(request):
            yield event


@pytest.fixture
def history() -> Iterator[History]:
    with History(None) as opened:
        yield opened


async def conversation(
    history: History, backend: Narrow, questions: Sequence[str], system: str = ""
) -> Session:
    session = Session(history, Dispatch(backend), Sampling(), system)
    for question in questions:
        await run(session.send(question))
    return session


async def run(turn: AsyncGenerator[TurnEvent, None]) -> list[TurnEvent]:
    return [event async for event in turn]


async def overflow_of(session: Session, backend: Narrow, window: int, question: str) -> ContextOverflow:
    backend.window = window
    last = (await run(session.send(question)))[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, ContextOverflow)
    return last.error


def ids(turns: Sequence[OldTurn]) -> list[int]:
    return [i for turn in turns for i in turn.message_ids]


def said(session: Session) -> list[str]:
    return [m.content for m in session.transcript()]


async def test_old_turns_are_questions_with_their_answers_before_the_last_question(history: History) -> None:
    session = await conversation(history, Narrow(), ["one\nmore", "two", "three"])
    path = session.transcript()
    assert [(turn.words, len(turn.message_ids)) for turn in session.room.old_turns()] == [
        ("one", 2),
        ("two", 2),
    ]
    assert ids(session.room.old_turns()) == [m.id for m in path[:4]]
    session.room.drop([path[0].id, path[1].id])
    assert [turn.words for turn in session.room.old_turns()] == ["two"]
    await run(session.room.summarise([path[2].id, path[3].id]))
    assert [
        turn.words for turn in session.room.old_turns()
    ] == []  # the summary stands behind the last question
    await run(session.send("four"))
    assert [turn.words for turn in session.room.old_turns()] == ["three", "They counted."]


async def test_without_a_conversation_there_are_no_old_turns(history: History) -> None:
    assert (await conversation(history, Narrow(), [])).room.old_turns() == []
    assert (await conversation(history, Narrow(), ["one"])).room.old_turns() == []


sizes = st.lists(st.integers(1, 30), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(sizes, st.integers(1, 30), st.integers(0, 10), st.integers(0, 120), st.integers(0, 20))
def test_the_fewest_oldest_turns_go(
    turns: list[int], question: int, system: int, window: int, spare: int
) -> None:
    async def check(history: History) -> None:
        backend = Narrow()
        session = await conversation(history, backend, ["w " * words for words in turns], "s " * system)
        backend.window = window
        await run(session.send("q " * question))
        path, before = session.transcript()[:-1], session.room.old_turns()

        def fits(without: Sequence[OldTurn], needed: int) -> bool:
            messages = [m for m in path if m.id not in ids(without)]
            words = 3 + sum(1 + len(m.content.split()) for m in messages) + (1 + system if system else 0)
            return words + RESERVED + needed <= window

        if fits([], 0):
            return
        overflow = ContextOverflow(0, window, RESERVED)
        backend.counts = 0
        choice = session.room.turns_in_the_way(overflow, backend.count, spare)
        if not fits(before, spare):
            with pytest.raises(ContextOverflow, match="too many"):
                await choice
            return
        gone = await choice
        assert gone == before[: len(gone)]
        assert fits(gone, spare)
        assert not gone[1:] or not fits(gone[:-1], spare)
        assert backend.counts <= 1 + len(before).bit_length()
        if spare == 0:
            events = await run(session.room.answer_without(ids(gone)))
            assert isinstance(events[-1], Finished)
            sent = backend.requests[-1].messages
            assert sent[-1].content == "q " * question
            assert (sent[0].content == "s " * system) or not system

    with History(None) as history:
        asyncio.run(check(history))


async def test_leaving_out_answers_the_same_question_and_can_be_undone(history: History) -> None:
    backend = Narrow()
    session = await conversation(history, backend, ["one " * 10, "two " * 10, "three"])
    overflow = await overflow_of(session, backend, 30, "four")
    turns = await session.room.turns_in_the_way(overflow, backend.count)
    assert [turn.words[:3] for turn in turns] == ["one"]
    events = await run(session.room.answer_without(ids(turns)))
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    assert [m.content[:4] for m in session.transcript()] == [
        "one ",
        "fine",
        "two ",
        "fine",
        "thre",
        "fine",
        "four",
        "fine",
    ]
    assert [m.content[:3] for m in backend.requests[-1].messages] == ["two", "fin", "thr", "fin", "fou"]
    backend.window = 10_000
    session.room.restore(ids(turns))
    await run(session.send("five"))
    assert backend.requests[-1].messages[0].content == "one " * 10


async def test_a_summary_stands_before_the_question_that_is_asked_again(history: History) -> None:
    backend = Narrow()
    session = await conversation(history, backend, ["one " * 10, "two " * 10, "three"], "Be brief.")
    overflow = await overflow_of(session, backend, 39, "four")
    turns = await session.room.turns_in_the_way(overflow, backend.count, spare_tokens=7)
    events = await run(session.room.answer_without(ids(turns), summarise=True))
    started = next(n for n, event in enumerate(events) if isinstance(event, Started))
    assert isinstance(events[started - 1], Finished)  # of the summary
    assert isinstance(events[-1], Finished)
    assert said(session)[-3:] == ["They counted.", "four", "fine"]
    sent = backend.requests[-1].messages
    assert sent[0].content == "Be brief.\n\nEarlier in this conversation: They counted."
    assert [m.content[:3] for m in sent[1:]] == ["two", "fin", "thr", "fin", "fou"]


@pytest.mark.parametrize("summary", ["", " "])
@pytest.mark.parametrize("error", [None, BackendCrashed("gone")])
async def test_without_a_summary_all_stands_as_before(
    history: History, summary: str, error: RouterError | None
) -> None:
    backend = Narrow(summary=summary)
    session = await conversation(history, backend, ["one " * 10, "two " * 10, "three"])
    overflow = await overflow_of(session, backend, 30, "four")
    backend.error = error
    before = session.transcript()
    turns = await session.room.turns_in_the_way(overflow, backend.count)
    events = await run(session.room.answer_without(ids(turns), summarise=True))
    assert isinstance(events[-1], Failed)
    assert not any(isinstance(event, Started) for event in events)
    assert session.transcript() == before
    assert session.conversation
    assert session.history.conversation(session.conversation.id).leaf_id == session.leaf_id


async def test_a_question_that_is_too_long_by_itself_says_so(history: History) -> None:
    backend = Narrow()
    session = await conversation(history, backend, ["one"])
    overflow = await overflow_of(session, backend, 20, "word " * 40)
    with pytest.raises(ContextOverflow, match=r"44 tokens plus 2 reserved .* 20 \(26 too many\)"):
        await session.room.turns_in_the_way(overflow, backend.count)
    assert not any(m.excluded for m in session.transcript())
