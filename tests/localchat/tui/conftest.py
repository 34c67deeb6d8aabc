"""The app over a scripted model and a store in memory, driven by Textual's Pilot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from textual.pilot import Pilot

from localchat.compose import Program
from localchat.errors import WeightsError
from localchat.history import History, StoredMessage
from localchat.paths import Paths
from localchat.session import Session
from localchat.settings import Settings
from localchat.tui.app import ChatApp
from localchat.tui.chat import ChatScreen
from localchat.weights import Catalog, Weights
from router.dispatch import Dispatch
from router.errors import RouterError
from router.request import ChatRequest, Event, Finished
from router.scripted import ScriptedBackend

NOW = 1_700_000_000.0  # November 2023, on every machine the 14th or 15th


@dataclass(slots=True)
class GatedBackend(ScriptedBackend):
    """Says its script, then waits at ``gate``: a reply in progress for as long as a test likes."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    load_gate: asyncio.Event | None = None
    stopped: int = 0

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        ended = False
        try:
            async with aclosing(ScriptedBackend.stream(self, request)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        await self.gate.wait()
                        ended = True
                    yield event
        finally:
            self.stopped += not ended

    async def load(self) -> AsyncGenerator[Event, None]:
        async for event in ScriptedBackend.load(self):
            yield event
            if self.load_gate:
                await self.load_gate.wait()


@dataclass
class FakeCatalog:
    """Two models; pulling ``hf:good`` works after two steps of progress."""

    pulled: list[str] = field(default_factory=list)

    def list(self) -> Sequence[Weights]:
        names = ["smollm2-135m", "qwen2.5-0.5b", *self.pulled]
        return [Weights(name, Path(f"/models/{name}.gguf"), 98_000_000, "pulled") for name in names]

    def pull(self, spec: str, tell: Callable[[Any], None]) -> Weights:
        from localchat.weights import Progress

        if spec != "hf:good":
            raise WeightsError(f"{spec} is not a model.", "Name it hf:owner/repo/file.gguf.")
        tell(Progress("good", 1_000, 2_000, 500.0, 2.0))
        self.pulled.append("good")
        return self.list()[-1]


MakeProgram = Callable[..., Program]
Chatting = Callable[..., AbstractAsyncContextManager[tuple[ChatScreen, Pilot[None]]]]


@pytest.fixture
def make_program(tmp_path: Path) -> MakeProgram:
    def make(
        script: Sequence[str | Event | RouterError] = ("Hello", " there", "."),
        *,
        model: ScriptedBackend | None = None,
        history: History | None = None,
        settings: Settings | None = None,
    ) -> Program:
        settings = settings or Settings(system="")
        model = model or ScriptedBackend(script, model="smollm2-135m")
        history = history or History(None, now=lambda: NOW)
        session = Session(history, Dispatch(model), settings.sampling, settings.system)
        catalog = cast("Catalog", FakeCatalog())

        def open_model(name: str) -> ScriptedBackend:
            if name not in [weights.name for weights in catalog.list()]:
                raise WeightsError(f"No weights are called {name!r}.", "See: localchat weights list")
            return ScriptedBackend(("I am", f" {name}"), model=name)

        paths = Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")
        return Program(settings, paths, catalog, history, model, session, open_model)

    return make


@pytest.fixture
def chatting(make_program: MakeProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Chatting:
    """``async with chatting(script) as (chat, pilot)``: the running app, painted and loaded."""
    monkeypatch.chdir(tmp_path)

    @asynccontextmanager
    async def run(
        *args: Any,
        size: tuple[int, int] = (80, 24),
        program: Program | None = None,
        conversation: int | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[tuple[ChatScreen, Pilot[None]]]:
        app = ChatApp(program or make_program(*args, **kwargs), conversation)
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield app.chat, pilot

    return run


@pytest.fixture
def until() -> Callable[..., Any]:
    """Wait for a condition; the test fails when it never comes."""

    async def wait(pilot: Pilot[None], holds: Callable[[], object]) -> None:
        for _ in range(500):
            await pilot.pause()
            if holds():
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"it never came: {holds}")

    return wait


@pytest.fixture
def say(until: Callable[..., Any]) -> Callable[..., Any]:
    """Type a message, send it, and wait for the whole reply."""

    async def send(chat: ChatScreen, pilot: Pilot[None], text: str) -> None:
        chat.prompt.focus()
        chat.prompt.put(text)
        await pilot.press("enter")
        await until(pilot, lambda: not chat.turns.running)
        await pilot.pause()

    return send


@pytest.fixture
def notices() -> Callable[[ChatScreen], list[str]]:
    return lambda chat: [notification.message for notification in chat.app._notifications]


@pytest.fixture
def long_conversation() -> Callable[[int], tuple[History, int, list[StoredMessage]]]:
    """A store with one conversation of ``count`` messages, its id, and its path."""

    def build(count: int) -> tuple[History, int, list[StoredMessage]]:
        history = History(None, now=lambda: NOW)
        info = history.new_conversation("A long one")
        parent: int | None = None
        for n in range(count):
            role = "assistant" if n % 2 else "user"
            parent = history.add(info.id, parent, role, f"Message {n} with some **text**.").id  # type: ignore[arg-type]  # one of two roles
        return history, info.id, history.path(parent or 0)

    return build


@pytest.fixture
def gated() -> Callable[..., GatedBackend]:
    return lambda *script, **kwargs: GatedBackend(
        script or ("Hello", " there"), model="smollm2-135m", **kwargs
    )
