"""Asking an EngineModel, for tests."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions
from router.request import ChatRequest, Delta, Event, Finished, Message, Notice, Sampling

GREEDY = Sampling(temperature=0.0, max_tokens=12)
CAPITAL = "What is the capital of France?"
SUM = "What is 2+2?"
"""Answered greedily by the default model with clear margins: rounding does not change the answer."""
LONG = "Count the words: " + "one two three four five six seven eight nine ten " * 300
"""About 3,000 tokens: a prefill that takes seconds."""
STORY = "Tell me a long story about a dog."


def engine(path: Path, **options: object) -> EngineModel:
    """One thread: the tests share the machine with others."""
    values: dict[str, object] = {"threads": 1, "prefill_threads": 1, **options}
    return EngineModel("some-model", LoadOptions(str(path), **values))  # type: ignore[arg-type]  # made from words


def ask(content: str, sampling: Sampling = GREEDY, max_tokens: int | None = None) -> ChatRequest:
    sampling = replace(sampling, max_tokens=max_tokens) if max_tokens else sampling
    return ChatRequest((Message("user", content),), sampling)


async def events_of(model: EngineModel, request: ChatRequest) -> list[Event]:
    async with aclosing(model.stream(request)) as events:
        return [event async for event in events]


async def answer(model: EngineModel, request: ChatRequest) -> tuple[str, Finished]:
    events = await events_of(model, request)
    assert isinstance(events[-1], Finished)
    return text_of(events), events[-1]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


async def until(events: AsyncGenerator[Event, None], kind: type, count: int = 1) -> list[Event]:
    """The events up to the ``count``-th of this kind, none of them Finished."""
    seen: list[Event] = []
    while sum(isinstance(event, kind) for event in seen) < count:
        seen.append(await anext(events))
        assert not isinstance(seen[-1], Finished)
    return seen


async def load(model: EngineModel) -> list[Event]:
    async with aclosing(model.load()) as events:
        return [event async for event in events]


async def works(model: EngineModel) -> list[str]:
    """Answers, and says so in these notices."""
    events = await events_of(model, ask("hello"))
    assert isinstance(events[-1], Finished)
    return [event.text for event in events if isinstance(event, Notice)]


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for(holds: Callable[[], bool], patience_s: float = 20.0) -> None:
    """Wait for what happens soon; the patience is only there to end a failing test."""
    end = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def open_files() -> set[str]:
    return {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _exists(fd)}


def _exists(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")
