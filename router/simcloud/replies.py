"""Answers as ASGI responses: whole, or streamed token by token; and what faults make of them.

Owns the bytes of an answer and noticing that nobody reads it any more. Knows ASGI
(https://asgi.readthedocs.io/en/latest/specs/www.html) and no framework.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Any

from router.cloud.sse import DONE, MEDIA_TYPE, encode_data
from router.cloud.wire import (
    Chunk,
    Reply,
    chunk_to_json,
    completion_to_json,
    error_to_json,
    text_chunk_to_json,
    text_completion_to_json,
)
from router.errors import RouterError
from router.request import Delta, Simulated, Usage
from router.simcloud.answering import Answer
from router.simcloud.faults import Fault

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

SIMULATED_HEADER = b"x-localchat-simulated"
PATIENCE_S = 60.0  # with a client that does not read on
LOOK_S = 5.0  # how often that is looked at
OVERSIZED_BYTES = 4 << 20
NONSENSE = Usage(10_000_000, 0, 1)
MARK = "\0the token goes here\0"


@dataclass(frozen=True, slots=True)
class Form:
    """In which of OpenAI's two forms an answer is written."""

    prefix: str
    chunk: Callable[[Reply, Chunk], dict[str, Any]]
    whole: Callable[[Reply, Chunk], dict[str, Any]]
    opens: bool


CHAT = Form("chatcmpl-", chunk_to_json, completion_to_json, opens=True)
TEXT = Form("cmpl-", text_chunk_to_json, text_completion_to_json, opens=False)


@dataclass(slots=True)
class Response:
    """An answer that was begun (``__aenter__`` of it has returned) on its way to one client."""

    answer: Answer
    reply: Reply
    form: Form
    stream: bool
    include_usage: bool
    fault: Fault | None = None
    _sending_since_s: float | None = None

    async def talk(self, leaving: asyncio.Future[None], send: Send) -> None:
        """Until all is sent, or the client has left (``leaving`` is done) or reads no more."""
        talking = asyncio.ensure_future(self._stream(send) if self.stream else self._whole(send))
        try:
            while not (talking.done() or leaving.done() or self._stuck()):
                await asyncio.wait({talking, leaving}, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            talking.cancel()
            with suppress(asyncio.CancelledError):
                await talking

    def _stuck(self) -> bool:
        since_s = self._sending_since_s
        return since_s is not None and time.monotonic() - since_s > PATIENCE_S

    async def _send(self, send: Send, body: bytes, more: bool = True) -> None:
        self._sending_since_s = time.monotonic()
        await send({"type": "http.response.body", "body": body, "more_body": more})
        self._sending_since_s = None

    # -- whole

    async def _whole(self, send: Send) -> None:
        pieces: list[Delta] = []
        reason = None
        try:
            async with aclosing(self.answer.chunks()) as chunks:
                async for chunk in chunks:
                    pieces += [piece for piece in chunk.pieces if isinstance(piece, Delta)]
                    reason = chunk.finish_reason
        except RouterError as error:
            await send_error(send, error)
            return
        whole = replace(self._counts(), pieces=tuple(pieces), finish_reason=reason)
        body = json.dumps(self.form.whole(self.reply, whole)).encode()
        if self.fault and self.fault.kind == "malformed":
            body = body[: len(body) // 2]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send(self._start(headers))
        if self.fault and self.fault.kind == "cut":
            await self._send(send, body[: len(body) // 2])
            return
        await self._send(send, body, more=False)

    # -- streamed

    async def _stream(self, send: Send) -> None:
        await send(self._start([(b"content-type", f"{MEDIA_TYPE}; charset=utf-8".encode())]))
        if self.form.opens:
            await self._send(send, self._event(Chunk(opens=True)))
        try:
            async with aclosing(self._events()) as events:
                async for event in events:
                    await self._send(send, event)
        except RouterError as error:
            await self._send(send, encode_data(json.dumps(error_to_json(error).body)))
        except Cut:
            return  # an answer that is not completed ends the connection
        await self._send(send, encode_data(DONE), more=False)

    async def _events(self) -> AsyncGenerator[bytes, None]:
        before, after = self._event(Chunk((Delta(MARK),))).split(json.dumps(MARK).encode())
        async with aclosing(self.answer.chunks()) as chunks:
            async for chunk in chunks:
                if self.fault:
                    async for spoilt in spoil(self.fault, self.answer.tokens, chunk):
                        yield spoilt
                match chunk.pieces:
                    case (Delta(text, "text"),):  # nearly every one: written into a frame made once
                        yield before + json.dumps(text).encode() + after
                    case _:
                        end = None if chunk.finish_reason is None or self.include_usage else self._simulated()
                        yield self._event(replace(chunk, simulated=end))
        if self.include_usage:
            yield self._event(self._counts())

    def _event(self, chunk: Chunk) -> bytes:
        return encode_data(json.dumps(self.form.chunk(self.reply, chunk)))

    def _counts(self) -> Chunk:
        lies = self.fault is not None and self.fault.kind == "lies"
        return Chunk(usage=NONSENSE if lies else self.answer.usage, simulated=self._simulated())

    def _simulated(self) -> Simulated:
        return self.answer.simulated

    def _start(self, headers: list[tuple[bytes, bytes]]) -> Message:
        simulated = [(SIMULATED_HEADER, label(self.answer.simulated)), (b"cache-control", b"no-store")]
        return {"type": "http.response.start", "status": 200, "headers": headers + simulated}


class Cut(Exception):
    """The connection is to end here."""


async def spoil(fault: Fault, tokens: int, chunk: Chunk) -> AsyncGenerator[bytes, None]:
    """What a fault puts before the next chunk, ``tokens`` having been sent; or raises Cut."""
    due = tokens > fault.number or chunk.finish_reason is not None
    match fault.kind:
        case "cut" if due:
            raise Cut
        case "stall" if due:
            await asyncio.Event().wait()  # until the client leaves
        case "malformed" if due:
            yield encode_data('{"choices": [{"delta"')
        case "oversized":
            yield b"data: " + b"x" * OVERSIZED_BYTES
        case "endless" if chunk.finish_reason is not None:
            while True:
                yield encode_data(json.dumps({"choices": [{"index": 0, "delta": {"content": " and so on"}}]}))
                await asyncio.sleep(0.01)


async def gone(receive: Receive) -> None:
    """Returns when the client has left, or the answer is complete."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_error(send: Send, error: RouterError) -> None:
    answer = error_to_json(error)
    body = json.dumps(answer.body).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **answer.headers}
    shown = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": shown})
    await send({"type": "http.response.body", "body": body})


def label(simulated: Simulated) -> bytes:
    """The header's value: what is simulated, and how it stood when the answer began."""
    text = (
        f'SIMULATED; gpu="{simulated.gpu}"; queued={simulated.queued_requests};'
        f' batch={simulated.batch_size}; text="{simulated.text_model}"'
    )
    return "".join(c if c.isprintable() else "?" for c in text).encode("ascii", "replace")
