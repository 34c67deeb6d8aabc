"""A cloud on the loopback that says exactly what a test wants, byte by byte, well or badly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from router.cloud.sse import encode_data
from router.cloud.wire import Chunk, Reply, chunk_to_json
from router.request import Delta, Usage

REPLY = Reply("chatcmpl-1", 1_700_000_000, "tiny")
DONE = b"data: [DONE]\n\n"
SSE = {"Content-Type": "text/event-stream; charset=utf-8"}
JSON = {"Content-Type": "application/json"}


def chunk(*texts: str, **more: Any) -> bytes:
    """One chunk as a server sends it."""
    return encode_data(json.dumps(chunk_to_json(REPLY, Chunk(tuple(map(Delta, texts)), **more))))


GOOD = (
    chunk(opens=True),
    chunk("Hel"),
    chunk("lo"),
    chunk(finish_reason="stop"),
    chunk(usage=Usage(5, 2, 2)),
    DONE,
)


@dataclass(frozen=True)
class Answer:
    """``body``: bytes are sent, numbers are pauses in seconds.

    ``cut`` ends the connection without ending the body; ``silent`` says nothing at all.
    """

    body: Sequence[bytes | float] = GOOD
    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: dict(SSE))
    cut: bool = False
    silent: bool = False
    pause_s: float = 0.0


def error(status: int, message: str = "Oh.", headers: dict[str, str] | None = None, **detail: Any) -> Answer:
    body = json.dumps({"error": {"message": message, "type": None, "param": None, "code": None, **detail}})
    return Answer((body.encode(),), status, {**JSON, **(headers or {})})


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Cloud:
    """``answers`` are used up one per request, the last one stays.

    ``disconnects`` counts clients that left in the middle.
    """

    answers: list[Answer] = field(default_factory=lambda: [Answer()])
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    disconnects: int = 0
    port: int = 0
    serving: dict[asyncio.Task[None], asyncio.StreamWriter] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task
        self.serving[task] = writer
        try:
            while await self._answer(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()
            del self.serving[task]

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, *fields = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append(Request(line, headers, json.loads(body)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer.silent:
            return False
        talking = asyncio.ensure_future(_send(answer, writer))
        leaving = asyncio.ensure_future(reader.read(1))
        await asyncio.wait({talking, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not talking.done():
            self.disconnects += 1
            talking.cancel()
        leaving.cancel()
        with suppress(asyncio.CancelledError, ConnectionError):
            await leaving
        with suppress(asyncio.CancelledError, ConnectionError):
            await talking
        return not (talking.cancelled() or answer.cut or talking.exception())


async def _send(answer: Answer, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(answer.pause_s)
    headers = {**answer.headers, "Transfer-Encoding": "chunked"}
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"HTTP/1.1 {answer.status} X\r\n{head}\r\n".encode())
    for piece in answer.body:
        if isinstance(piece, bytes):
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
        await asyncio.sleep(0 if isinstance(piece, bytes) else piece)
    if not answer.cut:
        writer.write(b"0\r\n\r\n")
        await writer.drain()


@asynccontextmanager
async def running_cloud(*answers: Answer) -> AsyncIterator[Cloud]:
    cloud = Cloud(list(answers) or [Answer()])
    server = await asyncio.start_server(cloud.serve, "127.0.0.1", 0)
    cloud.port = server.sockets[0].getsockname()[1]
    try:
        yield cloud
    finally:
        server.close()
        for writer in cloud.serving.values():
            writer.transport.abort()
        await asyncio.gather(*cloud.serving)
        await server.wait_closed()
