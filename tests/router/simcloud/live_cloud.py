"""The simulated cloud on the loopback, in the test's own loop, with a GPU so fast that tests are quick."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from router.cloud.client.backend import CloudBackend
from router.cloud.keys import ApiKey, FoundKey
from router.cloud.target import Deadlines, make_target
from router.errors import RouterError
from router.request import ChatRequest, Event, Message, Sampling
from router.simcloud.answering import SimulatedModel
from router.simcloud.deployment import Deployment
from router.simcloud.door import Door
from router.simcloud.faults import FaultSwitch, parse_fault
from router.simcloud.live import LiveServer
from router.simcloud.server import SimulatedCloud, serve
from router.simcloud.text_source import Count, ScriptedText, TextEnd, TextSource, TextToken
from router.simcloud.users import Users

FAST = Deployment(model="llama-3.2-1b", gpu="b200")
MODEL = "llama-3.2-1b-simulated"
KEY = "sk-simulated"
PATIENT = Deadlines(connect_s=2, first_token_s=5, idle_s=5, total_s=20)
HI = ChatRequest((Message("user", "Hello there."),), Sampling(max_tokens=12))


@dataclass
class Running:
    url: str
    cloud: SimulatedCloud

    @property
    def root(self) -> str:
        return self.url.removesuffix("/v1")

    @property
    def server(self) -> LiveServer:
        return self.cloud.model.server

    def client(self, key: str = "", deadlines: Deadlines = PATIENT) -> CloudBackend:
        target = make_target("localchat", base_url=self.url, model=MODEL, deadlines=deadlines)
        return CloudBackend(
            target, lambda: FoundKey(ApiKey(key) if key else None, "a test"), chance=lambda: 0.0
        )

    async def empty(self) -> None:
        """Waits until nobody is served and all blocks are free."""
        server = self.server
        await eventually(lambda: not (server.live or server.running or server.waiting or server.kv_used))


async def eventually(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110  # what happens over there is not announced
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(
    source: TextSource | None = None,
    *,
    deployment: Deployment = FAST,
    load: float = 0.0,
    door: Door | None = None,
    fault: str = "",
) -> AsyncIterator[Running]:
    model = SimulatedModel(LiveServer(deployment, Users(load, 1)), source or ScriptedText())
    cloud = SimulatedCloud(model, door or Door(), FaultSwitch(parse_fault(fault)))
    listening, stop = socket.create_server(("127.0.0.1", 0)), asyncio.Event()
    serving = asyncio.create_task(serve(cloud, listening, stop))
    try:
        await eventually(lambda: model.server.started)
        yield Running(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", cloud)
    finally:
        stop.set()
        await serving


async def events_of(
    backend: CloudBackend, request: ChatRequest = HI
) -> tuple[list[Event], RouterError | None]:
    """All events of an answer, and the error it ended with."""
    events: list[Event] = []
    try:
        async for event in backend.stream(request):
            events.append(event)  # noqa: PERF401  # those before an error are wanted
    except RouterError as error:
        return events, error
    finally:
        await backend.close()
    return events, None


@dataclass
class Author:
    """A source that a test leads by the hand: ``words`` come at once, then what ``more`` waits for."""

    words: Sequence[str] = ("one", " two")
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    then: Sequence[str] = ()
    error: RouterError | None = None
    model: str = "a test"
    window_tokens: int | None = None
    stopped: int = 0
    requests: list[ChatRequest] = field(default_factory=list)

    async def count(self, messages: Sequence[Message]) -> Count:
        return Count(100)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[TextToken | TextEnd, None]:
        self.requests.append(request)
        try:
            for word in self.words:
                yield TextToken(word)
            await self.gate.wait()
            if self.error:
                raise self.error
            for word in self.then:
                yield TextToken(word)
            yield TextEnd("stop")
        finally:
            self.stopped += 1

    async def close(self) -> None:
        self.gate.set()
