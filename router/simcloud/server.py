"""The simulated cloud over HTTP, as OpenAI's clients expect it.

Owns routes, what is refused before an answer begins, and running the server. The one part of
the simulator that imports the HTTP framework.

    POST /v1/chat/completions   POST /v1/completions   GET /v1/models   GET /health   GET /metrics
    GET, PATCH /simulation      from this machine only: GPU, policy, load, seed, fault
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from router.cloud.wire import (
    Call,
    NotAsAgreed,
    Reply,
    call_from_json,
    error_to_json,
    loads,
    text_call_from_json,
)
from router.errors import (
    CloudFault,
    CloudModelUnknown,
    CloudRefused,
    InvalidRequest,
    InvalidSimulation,
    RouterError,
    TooLarge,
)
from router.simcloud.answering import SimulatedModel
from router.simcloud.door import Door
from router.simcloud.faults import Fault, FaultSwitch, parse_fault
from router.simcloud.live import changed
from router.simcloud.prometheus import MEDIA_TYPE
from router.simcloud.replies import CHAT, TEXT, Form, gone, send_error
from router.simcloud.replies import Response as AnswerResponse
from router.simcloud.schedulers import POLICIES
from router.simcloud.users import Users

log = logging.getLogger(__name__)
MAX_BODY_BYTES = 4 << 20  # a million tokens of text, which no window here holds
BODY_PATIENCE_S = 30.0
FAULT_HEADER = "x-localchat-fault"
MOST_CONNECTIONS = 2048
GRACE_S = 1  # for answers in progress, when the server is stopped


@dataclass(slots=True)
class SimulatedCloud:
    """What the routes work on."""

    model: SimulatedModel
    door: Door = field(default_factory=Door)
    faults: FaultSwitch = field(default_factory=FaultSwitch)
    started_s: int = field(default_factory=lambda: int(time.time()))

    # -- answers

    async def chat(self, request: Request) -> _Begun | Response:
        return await self._answer(request, CHAT, call_from_json)

    async def text(self, request: Request) -> _Begun | Response:
        return await self._answer(request, TEXT, text_call_from_json)

    async def _answer(self, request: Request, form: Form, read: Callable[[Any], Call]) -> _Begun | Response:
        self._enter(request)
        call = read(await _body(request))
        fault = parse_fault_of(request) or self.faults.next()
        if fault is not None and (instead := await _instead(fault)) is not None:
            return instead
        return _Begun(self.model, call, form, fault)

    # -- what there is, and how it is

    async def models(self, request: Request) -> Response:
        self._enter(request)
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def one_model(self, request: Request) -> Response:
        self._enter(request)
        name = request.path_params["name"]
        if name != self.model.name:
            raise CloudModelUnknown(f"There is no model {name[:100]!r} here.", f"There is {self.model.name}.")
        return JSONResponse(self._card())

    def _card(self) -> dict[str, Any]:
        return {
            "id": self.model.name,
            "object": "model",
            "created": self.started_s,
            "owned_by": "localchat (SIMULATED)",
            "max_model_len": self.model.window_tokens,
            "simulated": {"gpu": self.model.server.gpu, "text_model": self.model.source.model},
        }

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(self.model.server.page(self.model.name), media_type=MEDIA_TYPE)

    # -- the simulation itself

    async def show(self, request: Request) -> Response:
        self._enter(request, from_here=True)
        return JSONResponse(self._state())

    async def change(self, request: Request) -> Response:
        """All of what is asked, or nothing."""
        self._enter(request, from_here=True)
        wanted = Wanted.read(await _body(request))
        server = self.model.server
        with _as_invalid_request():
            users = Users(
                server.users.per_s if wanted.load is None else wanted.load,
                server.users.seed if wanted.seed is None else wanted.seed,
            )
            fault = None if wanted.fault is None else parse_fault(wanted.fault)
            if wanted.gpu is not None or wanted.policy is not None:
                server.redeploy(changed(server.deployment, wanted.gpu, wanted.policy))
            if wanted.load is not None or wanted.seed is not None:
                server.welcome(users)
        if wanted.fault is not None:
            self.faults.fault = fault
        return JSONResponse(self._state())

    def _state(self) -> dict[str, Any]:
        server = self.model.server
        return {
            "label": "SIMULATED",
            "model": self.model.name,
            "gpu": server.gpu,
            "policy": server.deployment.policy,
            "load": server.users.per_s,
            "seed": server.users.seed,
            "fault": str(self.faults.fault or "none"),
            "text_model": self.model.source.model,
            "running": server.running,
            "waiting": server.waiting,
            "live": server.live,
            "kv_usage": server.kv_used / (server.kv_used + server.kv_free),
            "late_tokens": server.metrics.late_tokens,
            "turned_away": server.metrics.turned_away,
        }

    def _enter(self, request: Request, *, from_here: bool = False) -> None:
        """Raises a RouterError for those who may not."""
        address = request.client.host if request.client else ""
        if from_here and not _is_loopback(address):
            raise CloudRefused("The simulation is changed from its own machine only.", status=403)
        origin = request.headers.get("origin")
        if origin is not None and not _is_loopback(_host(origin)):
            raise CloudRefused("Web pages from elsewhere may not use this server.", status=403)
        authorization = request.headers.get("authorization", "")
        if from_here:
            self.door.check(authorization)
        else:
            self.door.enter(authorization, address, time.monotonic())


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a PATCH asks for; None stays as it is."""

    gpu: str | None = None
    policy: str | None = None
    load: float | None = None
    seed: int | None = None
    fault: str | None = None

    @classmethod
    def read(cls, body: Any) -> Wanted:
        """Raises InvalidRequest, which names the field that is wrong."""
        kinds: dict[str, tuple[type, ...]]
        kinds = {"gpu": (str,), "policy": (str,), "load": (int, float), "seed": (int,), "fault": (str,)}
        for name, value in body.items():
            if name not in kinds or isinstance(value, bool) or not isinstance(value, kinds[name]):
                what = "is not of the right type" if name in kinds else "cannot be changed"
                step = f"There are: {', '.join(kinds)}."
                raise InvalidRequest(f"{name[:40]!r} {what}.", step, param=name[:40])
        if body.get("policy") not in (None, *POLICIES):
            raise InvalidRequest(
                "There is no such policy.", f"There are: {', '.join(POLICIES)}.", param="policy"
            )
        return cls(**body)


@dataclass(frozen=True, slots=True)
class _Begun:
    """An answer, from the moment its request is understood: ASGI, so that leaving it is heard at any time."""

    model: SimulatedModel
    call: Call
    form: Form
    fault: Fault | None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._respond(scope, receive, send)
        except RouterError as error:
            await send_error(send, error)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.ensure_future(gone(receive))
        try:
            if self.fault and self.fault.kind == "latency":
                await asyncio.wait({leaving}, timeout=self.fault.number)
            elif self.fault and self.fault.kind == "silence":
                await leaving
            if leaving.done():
                return
            answer = await self.model.begin(self.call)
            async with answer:
                writing = asyncio.ensure_future(answer.written())
                await asyncio.wait({leaving, writing}, return_when=asyncio.FIRST_COMPLETED)
                if not writing.done():
                    writing.cancel()
                    return
                writing.result()  # raises what the text source does not accept, before the 200
                reply = Reply(f"{self.form.prefix}{secrets.token_hex(12)}", int(time.time()), self.model.name)
                response = AnswerResponse(answer, reply, self.form, self.call, self.fault)
                await response.talk(leaving, send)
        finally:
            leaving.cancel()


def parse_fault_of(request: Request) -> Fault | None:
    """The fault that a request asks for itself."""
    with _as_invalid_request(FAULT_HEADER):
        return parse_fault(request.headers.get(FAULT_HEADER, ""))


async def _instead(fault: Fault) -> Response | None:
    if (error := fault.error) is not None:
        raise error
    if fault.kind == "html":
        return HTMLResponse("<html><body>This fault was asked for.</body></html>")
    if fault.kind == "redirect":
        return RedirectResponse("http://127.0.0.1:9/v1/chat/completions")
    return None


@contextmanager
def _as_invalid_request(param: str = "") -> Iterator[None]:
    try:
        yield
    except InvalidSimulation as error:
        raise InvalidRequest(error.message, error.next_step, param=param) from error


async def _body(request: Request) -> Any:
    """Raises InvalidRequest, TooLarge or CloudFault (408)."""
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_PATIENCE_S):
            async for piece in request.stream():
                data += piece
                if len(data) > MAX_BODY_BYTES:
                    raise TooLarge(f"The body is larger than {MAX_BODY_BYTES:,} bytes.", "Send less.")
    except TimeoutError:
        raise CloudFault("The request's body did not come in time.", "Send it again.", status=408) from None
    try:
        return loads(bytes(data))
    except NotAsAgreed as error:
        raise InvalidRequest(f"The body cannot be read: {error}.", "Send a JSON object.") from None


def _host(origin: str) -> str:
    return origin.partition("://")[2].rpartition(":")[0].strip("[]") or origin.partition("://")[2]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


# -- the application, and running it


def build_app(cloud: SimulatedCloud) -> Starlette:
    routes = [
        Route("/v1/chat/completions", cloud.chat, methods=["POST"]),
        Route("/v1/completions", cloud.text, methods=["POST"]),
        Route("/v1/models", cloud.models),
        Route("/v1/models/{name:path}", cloud.one_model),
        Route("/health", cloud.health),
        Route("/metrics", cloud.metrics),
        Route("/simulation", cloud.show),
        Route("/simulation", cloud.change, methods=["PATCH"]),
    ]
    return Starlette(
        routes=routes,
        exception_handlers={
            RouterError: _refuse,
            HTTPException: _refuse_http,
            ClientDisconnect: _nobody,
            Exception: _fail,
        },
    )


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, RouterError)
    answer = error_to_json(error)
    return JSONResponse(answer.body, answer.status, answer.headers)


async def _refuse_http(request: Request, error: Exception) -> Response:
    """Paths and methods that there are not, in OpenAI's form."""
    assert isinstance(error, HTTPException)
    words = (
        f"{request.method} {request.url.path[:100]}: {error.detail}. See /v1/models, /v1/chat/completions."
    )
    detail = {"message": words, "type": "invalid_request_error", "param": None, "code": None}
    return JSONResponse({"error": detail}, error.status_code, error.headers)


async def _nobody(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nginx's word for a client that left; nobody reads it


async def _fail(request: Request, error: Exception) -> Response:
    log.error("A request failed.", exc_info=error)
    answer = error_to_json(CloudFault("Something went wrong in the simulated cloud.", "See its log."))
    return JSONResponse(answer.body, answer.status)


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(cloud: SimulatedCloud, listening: socket.socket, stop: asyncio.Event) -> None:
    """Until ``stop`` is set; then answers in progress have a moment, and are cut."""
    config = uvicorn.Config(
        build_app(cloud),
        http="h11",
        ws="none",
        loop="none",
        lifespan="off",
        log_config=None,
        log_level="critical",  # what goes wrong in the application is logged here
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_S,
    )
    server = _Server(config)
    cloud.model.server.start()
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        server.should_exit = True
        await serving
        cloud.model.server.close()
        await cloud.model.source.close()
