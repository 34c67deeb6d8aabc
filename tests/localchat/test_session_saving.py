"""What a kill, a full disk or a slow one leaves of an answer: all that was said, or nearly."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from localchat import reply
from localchat.errors import HistoryError
from localchat.history import History
from localchat.session import Session, Started, TurnEvent
from router.dispatch import Dispatch
from router.request import ChatRequest, Delta, Event, Finished, Notice, Progress, Sampling
from router.scripted import ScriptedBackend

PATIENCE_S = 20.0  # for what should take milliseconds


class Watched(History):
    """Remembers the saves, can refuse them, and can be slow at partial ones."""

    def __init__(self) -> None:
        super().__init__(None)
        self.saves: list[tuple[str, str]] = []
        self.full, self.refused = False, 0
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()

    def update(self, message_id: int, **changes: Any) -> None:
        if changes["state"] == "streaming":
            self.waiting.set()
            self.gate.wait(PATIENCE_S)
        if self.full:
            self.refused += 1
            raise HistoryError("The disk is full.", "Free some space.")
        super().update(message_id, **changes)
        self.saves.append((changes["state"], changes["content"]))


class Prompted:
    """A backend that goes on when it is told to."""

    model = "prompted"

    def __init__(self, *script: Event) -> None:
        self._script = script
        self._turn = asyncio.Semaphore(0)

    def go_on(self, steps: int = 1) -> None:
        for _ in range(steps):
            self._turn.release()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        for event in self._script:
            await self._turn.acquire()
            yield event


@pytest.fixture
def history() -> Iterator[Watched]:
    with Watched() as opened:
        yield opened


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "SAVE_EVERY_S", 0.01)


async def until(condition: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def collect(turn: AsyncGenerator[TurnEvent, None], into: list[TurnEvent]) -> None:
    async with aclosing(turn) as events:
        async for event in events:
            into += [event]


# -- while it streams


@pytest.mark.usefixtures("fast")
async def test_what_was_said_is_saved_though_nothing_more_is_said(history: Watched) -> None:
    backend = Prompted(Delta("a"), Delta("b"), Finished("stop"))
    session = Session(history, Dispatch(backend), Sampling())
    task = asyncio.create_task(collect(session.send("hi"), []))
    for said in ("a", "ab"):
        backend.go_on()
        await until(lambda said=said: ("streaming", said) in history.saves)
    before = len(history.saves)
    await asyncio.sleep(0.05)
    assert len(history.saves) == before  # nothing new, nothing written
    backend.go_on()
    await task
    assert history.saves[-1] == ("done", "ab")


@pytest.mark.usefixtures("fast")
async def test_a_long_prefill_gives_signs_of_life(history: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "SIGN_OF_LIFE_S", 0.02)
    backend = Prompted(Progress("prefill", 1, 2, "tokens"), Finished("stop"))
    task = asyncio.create_task(collect(Session(history, Dispatch(backend), Sampling()).send("hi"), []))
    backend.go_on()
    await until(lambda: history.saves.count(("streaming", "")) >= 3)
    backend.go_on()
    await task
    assert history.saves[-1] == ("done", "")


def test_a_stream_is_saved_within_the_promise_and_before_it_reads_as_interrupted() -> None:
    from localchat.history.records import STREAMING_SILENCE_S

    assert reply.SAVE_EVERY_S < 0.25
    assert reply.SIGN_OF_LIFE_S + reply.SAVE_EVERY_S < STREAMING_SILENCE_S / 2


@pytest.mark.usefixtures("fast")
async def test_a_slow_disk_delays_nothing(history: Watched) -> None:
    events: list[TurnEvent] = []
    history.gate.clear()
    backend = ScriptedBackend(["a"] * 50, tokens_per_s=1000)
    task = asyncio.create_task(collect(Session(history, Dispatch(backend), Sampling()).send("hi"), events))
    await until(lambda: events.count(Delta("a")) == 50)
    assert history.waiting.is_set()
    history.gate.set()
    await task
    assert history.saves[-1] == ("done", "a" * 50)


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_save_under_way_never_lands_after_the_last(history: Watched, cancelled: bool) -> None:
    backend = Prompted(Delta("a"), Delta("b"), Delta("c"))
    session = Session(history, Dispatch(backend), Sampling())
    history.gate.clear()
    threading.Timer(0.1, history.gate.set).start()
    turn = session.send("hi")
    for _ in range(2):
        await anext(turn)
    backend.go_on()
    await anext(turn)
    await asyncio.to_thread(history.waiting.wait, PATIENCE_S)  # "a" is being saved
    backend.go_on()
    if cancelled:
        task = asyncio.create_task(collect(turn, []))
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        await anext(turn)
        await turn.aclose()
    await asyncio.sleep(0.05)
    assert history.saves[-1] == ("stopped", "ab")
    assert session.transcript()[-1].state == "stopped"


# -- a store that cannot be written


@pytest.mark.usefixtures("fast")
async def test_a_full_disk_costs_the_answer_nothing_but_its_place_in_the_store(history: Watched) -> None:
    events: list[TurnEvent] = []
    backend = Prompted(*[Delta("a")] * 40, Finished("stop", model="m"))
    session = Session(history, Dispatch(backend), Sampling())
    history.full = True
    task = asyncio.create_task(collect(session.send("hi"), events))
    for steps in (1, 5, 35):
        before = history.refused
        backend.go_on(steps)
        await until(lambda before=before: history.refused > before)
    with pytest.raises(HistoryError, match="Free some space"):
        await task
    assert [type(event).__name__ for event in events].count("Notice") == 1
    notice = next(event for event in events if isinstance(event, Notice))
    assert notice.text == "This answer is not being saved. The disk is full. Free some space."
    assert events.count(Delta("a")) == 40
    assert isinstance(events[-1], Finished)
    assert isinstance(events[0], Started)
    # It is still there, for the reader and for the model, and saved as soon as that is possible.
    reply_id = events[0].reply.id
    for kept in (session.message(reply_id), session.transcript()[-1]):
        assert (kept.content, kept.state, kept.model) == ("a" * 40, "done", "m")
    assert history.message(reply_id).content == ""
    history.full = False
    later = ScriptedBackend(["b"])
    session.dispatch = Dispatch(later)
    await collect(session.send("more"), [])
    assert [m.content for m in later.requests[0].messages] == ["hi", "a" * 40, "more"]
    assert (history.message(reply_id).content, history.message(reply_id).state) == ("a" * 40, "done")


@pytest.mark.usefixtures("fast")
async def test_a_disk_that_has_room_again_is_no_error(history: Watched) -> None:
    events: list[TurnEvent] = []
    backend = Prompted(*[Delta("a")] * 40, Finished("stop"))
    session = Session(history, Dispatch(backend), Sampling())
    history.full = True
    task = asyncio.create_task(collect(session.send("hi"), events))
    backend.go_on()
    await until(lambda: history.refused)
    history.full = False
    backend.go_on(40)
    await task
    assert session.transcript() == history.path(session.leaf_id or 0)
    assert (session.transcript()[-1].content, session.transcript()[-1].state) == ("a" * 40, "done")


async def test_stopping_on_a_full_disk_keeps_the_partial_reply_in_memory(history: Watched) -> None:
    session = Session(history, Dispatch(ScriptedBackend(["a", "b"])), Sampling())
    turn = session.send("hi")
    for _ in range(3):
        await anext(turn)
    history.full = True
    with pytest.raises(HistoryError, match="full"):
        await turn.aclose()
    assert (session.transcript()[-1].content, session.transcript()[-1].state) == ("a", "stopped")


@pytest.mark.usefixtures("fast")
async def test_sqlite_itself_running_out_of_pages_is_that_case(tmp_path: Path) -> None:
    events: list[TurnEvent] = []
    with History(tmp_path / "h.db") as history:
        backend = Prompted(*[Delta("x" * 10_000)] * 40, Finished("stop"))
        session = Session(history, Dispatch(backend), Sampling())
        pages = history._db.select(lambda row: int(row[0]), "PRAGMA page_count", ())[0]
        history._db.select(tuple, f"PRAGMA max_page_count = {pages + 20}", ())
        task = asyncio.create_task(collect(session.send("hi"), events))
        backend.go_on(30)
        await asyncio.sleep(0.1)
        backend.go_on(11)
        with pytest.raises(HistoryError, match="Free some disk space"):
            await task
        assert session.transcript()[-1].content == "x" * 400_000
        stored = history.path(session.leaf_id or 0)
        assert stored[0].content == "hi"
        with pytest.raises(HistoryError, match="Free some disk space"):  # nothing can be asked either,
            await collect(session.send("y" * 200_000), [])
        assert len(session.transcript()) == 2  # and nothing is lost by trying
        history._db.select(tuple, "PRAGMA max_page_count = 1073741823", ())
        session.dispatch = Dispatch(ScriptedBackend(["ok"]))
        await collect(session.send("again"), [])
    with History(tmp_path / "h.db") as history:
        latest = history.latest()
        assert latest
        assert [len(m.content) for m in history.path(latest.leaf_id or 0)] == [2, 400_000, 5, 2]


@pytest.mark.usefixtures("fast")
async def test_a_conversation_deleted_meanwhile_is_said_and_the_answer_goes_on(history: Watched) -> None:
    events: list[TurnEvent] = []
    backend = Prompted(*[Delta("a")] * 40, Finished("stop"))
    session = Session(history, Dispatch(backend), Sampling())
    task = asyncio.create_task(collect(session.send("hi"), events))
    backend.go_on(5)
    await until(lambda: events.count(Delta("a")) == 5)
    assert isinstance(events[0], Started)
    history.delete(events[0].reply.conversation_id)
    backend.go_on(36)
    with pytest.raises(HistoryError, match="deleted elsewhere"):
        await task
    assert events.count(Delta("a")) == 40
    assert session.message(events[0].reply.id).content == "a" * 40
    session.start_new()
    session.dispatch = Dispatch(ScriptedBackend())
    await collect(session.send("a new one"), [])
    assert len(session.transcript()) == 2


# -- kill -9

VICTIM = """
import asyncio, os, sys, time
from pathlib import Path
from localchat.history import History
from localchat.session import Session
from router.dispatch import Dispatch
from router.request import Delta, Sampling
from router.scripted import ScriptedBackend

async def main():
    backend = ScriptedBackend([f"{n} " for n in range(100_000)], tokens_per_s=200)
    session = Session(History(Path(sys.argv[1])), Dispatch(backend), Sampling())
    log = os.open(sys.argv[2], os.O_CREAT | os.O_WRONLY)
    async for event in session.send("the question"):
        if isinstance(event, Delta):
            os.write(log, f"{time.monotonic()}\\n".encode())

asyncio.run(main())
"""


@pytest.mark.parametrize("least", [3, 150])
async def test_kill_9_costs_at_most_a_quarter_of_a_second_of_text(tmp_path: Path, least: int) -> None:
    path, log = tmp_path / "h.db", tmp_path / "log"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *filter(None, sys.path)])}
    command = [sys.executable, "-c", VICTIM, str(path), str(log)]
    with subprocess.Popen(command, env=environment) as victim:  # noqa: ASYNC220  # it starts at once
        await until(
            lambda: victim.poll() is not None or (log.exists() and log.read_bytes().count(b"\n") > least)
        )
        victim.send_signal(signal.SIGKILL)
    heard_at_s = [float(line) for line in log.read_text().split("\n")[:-1]]
    with History(path, now=lambda: time.time() + 6) as history:
        latest = history.latest()
        assert latest
        question, answer = history.path(latest.leaf_id or 0)
        assert (question.content, question.state, answer.state) == ("the question", "done", "interrupted")
        kept = answer.content.split()
        assert kept == [str(n) for n in range(len(kept))]
        lost_s = heard_at_s[-1] - heard_at_s[len(kept)] if len(kept) < len(heard_at_s) else 0.0
        # A machine too busy to run the child at all for a while delays its saves by as much.
        stalled_s = max(b - a for a, b in pairwise(heard_at_s))
        assert lost_s <= 0.25 + stalled_s
        session = Session(history, Dispatch(ScriptedBackend(["next"])), Sampling())
        session.open(latest.id)
        await collect(session.send("go on"), [])
        assert [m.content for m in session.transcript()] == ["the question", answer.content, "go on", "next"]
