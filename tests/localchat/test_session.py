"""A conversation's turns: what is stored at each moment, where it stands, what the model sees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from localchat.errors import HistoryError
from localchat.history import History, StoredMessage
from localchat.session import Session, Started, TurnEvent
from router.decision import Turn
from router.dispatch import Dispatch
from router.errors import BackendCrashed, ContextOverflow, RouterError
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Failed,
    Finished,
    Message,
    Reclassified,
    ResponseFormat,
    Routed,
    Sampling,
    Timings,
    Usage,
)
from router.scripted import ScriptedBackend

Script = Sequence[str | Event | RouterError]
END = Finished("stop", Usage(7, 3, 2), Timings(1.0, 2.0, 3.0, 4.0), "tiny")


@pytest.fixture
def history() -> Iterator[History]:
    with History(None) as opened:
        yield opened


def session_over(history: History, script: Script = ("Hello", " there."), system: str = "") -> Session:
    return Session(history, Dispatch(ScriptedBackend(script)), Sampling(), system)


def backend_of(session: Session) -> ScriptedBackend:
    assert isinstance(session.dispatch, Dispatch)
    backend = session.dispatch._local
    assert isinstance(backend, ScriptedBackend)
    return backend


async def run(turn: AsyncGenerator[TurnEvent, None]) -> list[TurnEvent]:
    return [event async for event in turn]


async def say(session: Session, text: str, script: Script = ("ok",)) -> tuple[StoredMessage, StoredMessage]:
    """The stored question and answer of a whole turn."""
    backend_of(session).script = script
    started = (await run(session.send(text)))[0]
    assert isinstance(started, Started)
    assert started.user
    return session.history.message(started.user.id), session.history.message(started.reply.id)


def sent(session: Session) -> list[tuple[str, str]]:
    """What the model saw last."""
    return [(m.role, m.content) for m in backend_of(session).requests[-1].messages]


def said(session: Session) -> list[str]:
    return [m.content for m in session.transcript()]


# -- what is stored when


async def test_the_question_is_stored_before_anything_happens(history: History) -> None:
    session = session_over(history)
    async with aclosing(session.send("why?")) as events:
        started = await anext(events)
        assert isinstance(started, Started)
        assert started.user
        stored = session.transcript()
        assert [(m.role, m.content, m.state) for m in stored] == [
            ("user", "why?", "done"),
            ("assistant", "", "streaming"),
        ]
        assert [m.id for m in stored] == [started.user.id, started.reply.id]
        assert backend_of(session).requests == []
        decided = await session.dispatch.decide(session.request_for(stored[:1]), session.turn())
        assert await anext(events) == Routed(decided)


async def test_a_whole_answer_is_stored_before_its_end_is_seen(history: History) -> None:
    session = session_over(history, ["<think>hm</think>", "Yes", ".", END])
    async for event in session.send("why?"):
        if isinstance(event, Finished):
            reply = session.transcript()[-1]
    assert (reply.content, reply.reasoning, reply.state) == ("Yes.", "hm", "done")
    assert (reply.model, reply.usage, reply.timings) == ("tiny", END.usage, END.timings)


@pytest.mark.parametrize("seen", range(1, 5))
async def test_closing_a_turn_stops_the_model_and_keeps_what_was_said(history: History, seen: int) -> None:
    session = session_over(history, ["a", "b", "c", "d"])
    async with aclosing(session.send("why?")) as events:
        for _ in range(seen):
            await anext(events)
    question, reply = session.transcript()
    assert question.content == "why?"
    assert (reply.state, reply.content) == (
        "stopped",
        "abcd"[: max(0, seen - 2)],
    )  # Started, Routed, then text
    assert backend_of(session).closed == (seen > 2)


async def test_cancelling_the_task_that_reads_does_the_same(history: History) -> None:
    session = session_over(history)
    backend_of(session).script, backend_of(session).tokens_per_s = ["a"] * 1000, 200.0

    async def read() -> None:
        async for event in session.send("why?"):
            if isinstance(event, Delta):
                heard.set()

    heard = asyncio.Event()
    task = asyncio.create_task(read())
    await heard.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    reply = session.transcript()[-1]
    assert reply.state == "stopped"
    assert reply.content.startswith("a")
    assert backend_of(session).closed == 1


async def test_an_error_keeps_what_was_said_and_is_the_last_event(history: History) -> None:
    crash = BackendCrashed("gone", "again")
    session = session_over(history, ["Yes", " bu", crash])
    events = await run(session.send("why?"))
    assert events[-1] == Failed(crash)
    reply = session.transcript()[-1]
    assert (reply.content, reply.state) == ("Yes bu", "failed")


async def test_an_unforeseen_error_keeps_what_was_said_too(history: History) -> None:
    class Broken(Dispatch):
        async def stream(self, request: ChatRequest, turn: Turn) -> AsyncGenerator[Event, None]:
            yield Delta("Yes")
            raise ZeroDivisionError

    session = session_over(history)
    session.dispatch = Broken(backend_of(session))
    with pytest.raises(ZeroDivisionError):
        await run(session.send("why?"))
    reply = session.transcript()[-1]
    assert (reply.content, reply.state) == ("Yes", "failed")


async def test_text_that_turns_out_to_be_reasoning_is_stored_as_such(history: History) -> None:
    session = session_over(history, ["hm", "</think>", "Yes"])
    assert Reclassified() in await run(session.send("why?"))
    reply = session.transcript()[-1]
    assert (reply.reasoning, reply.content) == ("hm", "Yes")


async def test_nothing_is_stored_before_something_is_said(history: History) -> None:
    session = session_over(history, system="Be brief.")
    session.system = "Be very brief."
    session.start_new()
    turn = session.send("never read")
    await turn.aclose()
    assert session.conversation is None
    assert (session.transcript(), history.conversations(), history.latest()) == ([], [], None)
    await say(session, "hi")
    assert [info.message_count for info in history.conversations()] == [2]


async def test_every_conversation_comes_back_whole(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with History(path) as history:
        session = session_over(history, system="Be brief.")
        for number in range(3):
            session.start_new()
            await say(session, f"question {number}", [f"answer {number}"])
    with History(path) as history:
        session = session_over(history)
        for number, info in enumerate(reversed(history.conversations())):
            session.open(info.id)
            assert said(session) == [f"question {number}", f"answer {number}"]
            assert session.system == "Be brief."


# -- where it stands


async def test_turns_follow_one_another(history: History) -> None:
    session = session_over(history)
    for text in ("one", "two"):
        await say(session, text)
    assert said(session) == ["one", "ok", "two", "ok"]
    assert session.conversation
    assert session.conversation.title == "one"
    assert history.conversation(session.conversation.id) == session.conversation


async def test_editing_branches_and_deletes_nothing(history: History) -> None:
    session = session_over(history)
    question, _ = await say(session, "first", ["1"])
    await say(session, "second", ["2"])
    backend_of(session).script = ["3"]
    await run(session.edit(question.id, "other"))
    assert said(session) == ["other", "3"]
    assert sent(session) == [("user", "other")]
    session.switch_branch(session.transcript()[0].id, 1)
    assert said(session) == ["first", "1", "second", "2"]
    session.switch_branch(question.id, -1)
    assert said(session) == ["other", "3"]
    await say(session, "more", ["4"])
    assert said(session) == ["other", "3", "more", "4"]


async def test_regenerating_adds_a_sibling(history: History) -> None:
    session = session_over(history)
    question, reply = await say(session, "why?", ["1"])
    backend_of(session).script = ["2"]
    await run(session.regenerate(reply.id))
    assert said(session) == ["why?", "2"]
    assert sent(session) == [("user", "why?")]
    await run(session.regenerate(question.id))
    assert [m.content for m in history.children(question.id, question.conversation_id)] == ["1", "2", "2"]
    last = session.transcript()[-1]
    assert (last.sibling_index, last.sibling_count) == (2, 3)


async def test_it_resumes_from_any_message(history: History) -> None:
    session = session_over(history)
    _, reply = await say(session, "one", ["1"])
    await say(session, "two", ["2"])
    session.start_new()
    session.resume_from(reply.id)
    await say(session, "three", ["3"])
    assert said(session) == ["one", "1", "three", "3"]
    other = session_over(history)
    other.open(reply.conversation_id)
    assert said(other) == said(session)


async def test_a_reply_without_a_question_cannot_be_regenerated(history: History) -> None:
    session = session_over(history)
    root = history.add(history.new_conversation().id, None, "assistant", "hi")
    with pytest.raises(ValueError, match="without a question"):
        await run(session.regenerate(root.id))


async def test_what_is_gone_is_said_in_words(history: History) -> None:
    session = session_over(history)
    question, _ = await say(session, "hi")
    history.delete(question.conversation_id)
    for turn in (session.send("more"), session.edit(question.id, "x"), session.regenerate(question.id)):
        with pytest.raises(HistoryError, match="deleted elsewhere"):
            await run(turn)
    session.start_new()
    await say(session, "again")
    assert said(session) == ["again", "ok"]


@pytest.mark.parametrize("in_a_file", [False, True])
async def test_two_sessions_in_one_conversation_do_not_disturb_each_other(
    history: History, tmp_path: Path, in_a_file: bool
) -> None:
    with History(tmp_path / "h.db") as first, History(tmp_path / "h.db") as second:
        one = session_over(first if in_a_file else history)
        question, _ = await say(one, "shared", ["0"])
        other = session_over(second if in_a_file else history)
        other.open(question.conversation_id)
        backend_of(one).script, backend_of(other).script = ["a", "b"], ["c", "d"]
        ours, theirs = one.send("from one"), other.send("from other")
        for _ in range(5):  # in turns: Started, Routed, two texts, Finished
            await anext(ours)
            await anext(theirs)
        await ours.aclose()
        await theirs.aclose()
        assert said(one) == ["shared", "0", "from one", "ab"]
        assert said(other) == ["shared", "0", "from other", "cd"]
        await say(one, "one again", ["e"])
        await say(other, "other again", ["f"])
        assert said(one) == ["shared", "0", "from one", "ab", "one again", "e"]
        assert said(other) == ["shared", "0", "from other", "cd", "other again", "f"]
        assert sent(one) == [
            ("user", "shared"),
            ("assistant", "0"),
            ("user", "from one"),
            ("assistant", "ab"),
            ("user", "one again"),
        ]
        assert one.history.conversation(question.conversation_id).message_count == 10


# -- what the model sees


async def test_the_model_sees_the_system_prompt_and_the_branch(history: History) -> None:
    session = session_over(history, system="Be brief.")
    await say(session, "one", ["1"])
    await say(session, "two")
    assert sent(session) == [("system", "Be brief."), ("user", "one"), ("assistant", "1"), ("user", "two")]
    session.system = ""
    await say(session, "three")
    assert sent(session)[0] == ("user", "one")
    session.start_new()
    assert session.system == ""


async def test_another_conversation_keeps_its_own_system_prompt(history: History) -> None:
    session = session_over(history, system="A")
    question, _ = await say(session, "hi")
    session.start_new()
    session.system = "B"
    await say(session, "hi")
    session.open(question.conversation_id)
    assert session.system == "A"
    assert session.transcript()[0].id == question.id


async def test_the_model_never_sees_reasoning_left_out_turns_or_empty_replies(history: History) -> None:
    session = session_over(history)
    question, answer = await say(session, "one", ["<think>secret</think>", "1"])
    await say(session, "fails", [BackendCrashed("gone")])
    await say(session, "fails late", ["par", BackendCrashed("gone")])
    await say(session, "two", ["<think>only thought"])
    await say(session, "three")
    assert sent(session) == [
        ("user", "one"),
        ("assistant", "1"),
        ("user", "fails"),
        ("user", "fails late"),
        ("assistant", "par"),
        ("user", "two"),
        ("user", "three"),
    ]
    session.room.drop([question.id, answer.id])
    await say(session, "four")
    assert sent(session)[0] == ("user", "fails")
    assert said(session)[:2] == ["one", "1"]
    session.room.restore([question.id, answer.id])
    await say(session, "five")
    assert sent(session)[:2] == [("user", "one"), ("assistant", "1")]


async def test_a_stopped_reply_is_seen(history: History) -> None:
    session = session_over(history, ["half", " and half"])
    async with aclosing(session.send("one")) as events:
        async for event in events:
            if isinstance(event, Delta):
                break
    await say(session, "go on")
    assert sent(session) == [("user", "one"), ("assistant", "half"), ("user", "go on")]


async def test_sampling_and_format_reach_the_model(history: History) -> None:
    session = session_over(history)
    session.sampling = replace(session.sampling, seed=3)
    session.response_format = ResponseFormat("regex", "a+")
    await say(session, "hi")
    (request,) = backend_of(session).requests
    assert request == ChatRequest((Message("user", "hi"),), session.sampling, session.response_format)


# -- summaries


async def test_a_summary_takes_the_place_of_what_it_sums_up(history: History) -> None:
    session = session_over(history, system="Be brief.")
    first = await say(session, "one", ["1"])
    await say(session, "two", ["2"])
    session.response_format = ResponseFormat("regex", "a+")
    backend_of(session).script = ["<think>hm</think>", " They counted. "]
    async for event in session.room.summarise([m.id for m in first]):
        if isinstance(event, Finished):
            assert session.transcript()[-1].content == "They counted."
    assert [m[0] for m in sent(session)] == ["system", "user", "assistant", "user"]
    asked = backend_of(session).requests[-1]
    assert (asked.sampling.temperature, asked.response_format) == (0.0, None)
    summary = session.transcript()[-1]
    assert (summary.kind, summary.reasoning, summary.excluded) == ("summary", "", False)
    await say(session, "three")
    assert sent(session) == [
        ("system", "Be brief.\n\nEarlier in this conversation: They counted."),
        ("user", "two"),
        ("assistant", "2"),
        ("user", "three"),
    ]
    session.room.restore([m.id for m in first])
    session.room.drop([summary.id])
    await say(session, "four")
    assert sent(session)[:2] == [("system", "Be brief."), ("user", "one")]


@pytest.mark.parametrize("script", [["half", BackendCrashed("gone")], [ContextOverflow(9, 8)], [" \n"], []])
async def test_without_a_summary_nothing_changes_and_failed_is_last(history: History, script: Script) -> None:
    session = session_over(history)
    first = await say(session, "one", ["1"])
    before = session.transcript()
    backend_of(session).script = script
    events = await run(session.room.summarise([m.id for m in first]))
    assert isinstance(events[-1], Failed)
    assert not any(isinstance(event, Finished) for event in events)
    assert session.transcript() == before


async def test_a_summary_stopped_halfway_changes_nothing(history: History) -> None:
    session = session_over(history)
    first = await say(session, "one", ["1"])
    before = session.transcript()
    backend_of(session).script = ["half", "way"]
    async with aclosing(session.room.summarise([m.id for m in first])) as events:
        async for event in events:
            if isinstance(event, Delta):
                break
    assert session.transcript() == before
