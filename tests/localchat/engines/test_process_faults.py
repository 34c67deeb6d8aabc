"""Children that die, files that are no models, parents that vanish: nothing else goes with them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from localchat.engines.process import EngineModel
from router.errors import BackendCrashed, ModelUnavailable
from router.request import ChatRequest, Delta, Finished, Notice
from tests.localchat.engines.talk import (
    LONG,
    answer,
    ask,
    engine,
    events_of,
    is_running,
    load,
    open_files,
    text_of,
    until,
    wait_for,
    works,
)

CRASHED = "The engine had stopped; it is being started again."
ENDLESS = ask("x" * 100, max_tokens=8000)
PATIENCE_S = 60.0  # only ends a test that fails


@pytest.fixture
async def model(tiny_model: Path) -> AsyncIterator[EngineModel]:
    model = engine(tiny_model)
    yield model
    await model.close()


# -- a child that dies


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT])
async def test_a_death_while_it_answers_keeps_what_was_said(model: EngineModel, how: signal.Signals) -> None:
    async with aclosing(model.stream(ENDLESS)) as events:
        said = await until(events, Delta, 3)
        assert model.pid is not None
        os.kill(model.pid, how)
        with pytest.raises(BackendCrashed, match="killed" if how == signal.SIGKILL else how.name):
            while True:
                said.append(await anext(events))
    assert text_of(said)
    assert model.info is None
    assert await works(model) == [CRASHED]
    assert await works(model) == []


@pytest.mark.real_model
async def test_a_death_in_the_middle_of_a_prefill(default_model: Path) -> None:
    model = engine(default_model)
    async with aclosing(model.stream(ask(LONG))) as events:
        await until(events, object, 4)
        assert model.pid is not None
        os.kill(model.pid, signal.SIGKILL)
        with pytest.raises(BackendCrashed, match="Send again"):
            while True:
                await anext(events)
    assert (await works(model))[0] == CRASHED
    await model.close()


async def test_a_death_while_nothing_is_asked_is_made_good(model: EngineModel) -> None:
    said, _ = await answer(model, ask("hello"))
    assert model.pid is not None
    os.kill(model.pid, signal.SIGKILL)
    wait_for(lambda: not is_running(model.pid or 0))
    events = await events_of(model, ask("hello"))
    assert text_of(events) == said
    assert [event.text for event in events if isinstance(event, Notice)] == [CRASHED]


async def test_a_death_just_before_a_request_is_made_good(model: EngineModel) -> None:
    await load(model)
    assert model.pid is not None
    os.kill(model.pid, signal.SIGSTOP)  # so that it dies with the request sent and unread
    os.kill(model.pid, signal.SIGKILL)
    assert isinstance((await events_of(model, ask("hello")))[-1], Finished)


async def test_a_death_while_loading_is_explained_and_passes(model: EngineModel) -> None:
    model.start()
    assert model.pid is not None
    os.kill(model.pid, signal.SIGKILL)
    with pytest.raises(ModelUnavailable, match="some-model cannot be loaded"):
        await load(model)
    assert await works(model) == []


async def test_a_death_while_counting(model: EngineModel) -> None:
    await load(model)
    assert model.pid is not None
    os.kill(model.pid, signal.SIGSTOP)
    counting = asyncio.create_task(model.count_tokens(ask("hello").messages))
    await asyncio.sleep(0.05)
    os.kill(model.pid, signal.SIGKILL)
    with pytest.raises(BackendCrashed):
        await counting
    assert await model.count_tokens(ask("hello").messages) > 0


async def test_deaths_in_a_row(model: EngineModel) -> None:
    for _ in range(3):
        assert await works(model) in ([], [CRASHED])
        assert model.pid is not None
        os.kill(model.pid, signal.SIGKILL)
    assert await works(model) == [CRASHED]


# -- what is left behind

PARENT = """
import asyncio, sys
from tests.localchat.engines.talk import ask, engine
async def main():
    model = engine(sys.argv[1])
    async for event in model.stream(ask("x" * 100, max_tokens=int(sys.argv[2]))):
        print(model.pid, flush=True)
    print("done", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def start_parent(path: Path, max_tokens: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, str(path), str(max_tokens)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))},
        text=True,
    )


@pytest.mark.parametrize("max_tokens", [8000, 2], ids=["while answering", "while idle"])
def test_a_child_ends_with_its_parent(tiny_model: Path, max_tokens: int) -> None:
    with start_parent(tiny_model, max_tokens) as parent:
        assert parent.stdout is not None
        lines = [parent.stdout.readline().strip()]
        while max_tokens == 2 and lines[-1] != "done":
            lines.append(parent.stdout.readline().strip())
        child = int(lines[0])
        assert is_running(child)
        parent.kill()
    wait_for(lambda: not is_running(child))


async def test_what_the_child_prints_reaches_nobody(
    tiny_model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "model.gguf"
    broken.write_bytes(tiny_model.read_bytes()[:-5000])
    for path in (tiny_model, broken):
        model = engine(path)
        with contextlib.suppress(ModelUnavailable):
            await works(model)
        if model.pid:
            os.kill(model.pid, signal.SIGABRT)
        await model.close()
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("error")
async def test_nothing_is_left_after_many_rounds(tiny_model: Path) -> None:
    async def round_() -> None:
        model = engine(tiny_model)
        await works(model)
        async with aclosing(model.stream(ENDLESS)) as events:
            await until(events, Delta)
        if model.pid:
            os.kill(model.pid, signal.SIGKILL)
        await works(model)
        await model.close()

    await round_()
    gc.collect()
    files = open_files()
    for _ in range(4):
        await round_()
    gc.collect()
    assert {name for name in open_files() - files if not name.startswith("/proc")} == set()
    assert psutil.Process().children() == []


async def test_a_model_never_asked_leaves_nothing(tiny_model: Path) -> None:
    model = engine(tiny_model)
    model.start()
    model.start()
    assert len(psutil.Process().children()) == 1
    await model.close()
    assert psutil.Process().children() == []


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 5, 8, 13])
async def test_a_model_closed_while_a_request_begins_answers_the_next(model: EngineModel, steps: int) -> None:
    for loaded in (False, True):
        task = asyncio.create_task(events_of(model, ask("x", max_tokens=5)))
        for _ in range(steps):
            await asyncio.sleep(0)
        await model.close()
        async with asyncio.timeout(PATIENCE_S):
            (result,) = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(result, BackendCrashed | ModelUnavailable | list), result
        assert await works(model) == [], f"no engine had stopped of itself ({loaded=})"


async def test_random_use_ends_in_a_model_that_works(model: EngineModel) -> None:
    """Ask, stop, cancel, kill and close in any order."""
    chance = random.Random(4)
    for _ in range(25):
        request: ChatRequest = replace(
            ENDLESS, sampling=replace(ENDLESS.sampling, max_tokens=chance.choice([1, 8000]))
        )
        task = asyncio.create_task(events_of(model, request))
        await asyncio.sleep(chance.choice([0.0, 0.001, 0.05, 0.2, 0.5]))
        match chance.randrange(4):
            case 0:
                task.cancel()
            case 1 if model.pid:
                os.kill(model.pid, signal.SIGKILL)
            case 2:
                await model.close()
            case _:
                task.cancel()
                await asyncio.sleep(0)
                task.cancel()
        async with asyncio.timeout(PATIENCE_S):
            (result,) = await asyncio.gather(task, return_exceptions=True)
        allowed = (BackendCrashed, ModelUnavailable, asyncio.CancelledError)
        assert isinstance(result, (list, *allowed)), result
    await works(model)
    assert await works(model) == []
