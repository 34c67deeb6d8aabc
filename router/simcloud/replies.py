"""Answers as ASGI responses: whole, or streamed token by token; and what faults make of them.

Owns the bytes of an answer and noticing that nobody reads it any more. Knows ASGI
(https://asgi.readthedocs.io/en/latest/specs/www.html) and no framework.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from router.cloud.sse import DONE, MEDIA_TYPE, encode_data
from router.cloud.wire import (
    Call,
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
    call: Call
    fault: Fault | None = None
    _sending_since_s: float | None = None

    async def talk(self, leaving: asyncio.Future[None], send: Send) -> None:
        """Until all is sent, or the client has left (``leaving`` is done) or reads no more."""
        talking = asyncio.ensure_future(self._stream(send) if self.call.stream else self._whole(send))
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
        answer, pieces = self.answer, []
        try:
            while (token := await answer.next()) is not None:
                await answer.due()
                pieces.append(Delta(token.text, token.kind))
        except RouterError as error:
            await send_error(send, error)
            return
        whole = replace(self._counts(), pieces=tuple(pieces), finish_reason=answer.end)
        body = json.dumps(self.form.whole(self.reply, whole)).encode()
        kind = self.fault.kind if self.fault else ""
        shown = body[: len(body) // 2] if kind in ("cut", "malformed") else body
        size = len(body) if kind == "cut" else len(shown)
        await send(self._start([(b"content-type", b"application/json"), (b"content-length", b"%d" % size)]))
        await self._send(send, shown, more=kind == "cut")

    # -- streamed

    async def _stream(self, send: Send) -> None:
        await send(self._start([(b"content-type", f"{MEDIA_TYPE}; charset=utf-8".encode())]))
        if self.form.opens:
            await self._send(send, self._event(Chunk(opens=True)))
        try:
            await self._tokens(send)
        except RouterError as error:
            await self._send(send, encode_data(json.dumps(error_to_json(error).body)))
        except Cut:
            return  # an answer that is not completed ends the connection
        await self._send(send, encode_data(DONE), more=False)

    async def _tokens(self, send: Send) -> None:
        """Each is written before it is due, so that it only has to be sent then."""
        answer, frame = self.answer, self._frame()
        while (token := await answer.next()) is not None:
            if self.fault:
                await self._spoil(send, answer.tokens)
            event = (
                frame(token.text)
                if token.kind == "text"
                else self._event(Chunk((Delta(token.text, token.kind),)))
            )
            await answer.due()
            if self.call.include_times:
                event = self._timed(event)
            if token.text:
                await self._send(send, event)
        if self.fault:
            await self._spoil(send, math.inf)
        unasked = None if self.call.include_usage else answer.simulated
        await self._send(send, self._event(Chunk(finish_reason=answer.end, simulated=unasked)))
        if self.call.include_usage:
            await self._send(send, self._event(self._counts()))

    def _frame(self) -> Callable[[str], bytes]:
        """Nearly every chunk differs from others in its text only: the rest is written once."""
        before, after = self._event(Chunk((Delta(MARK),))).split(json.dumps(MARK).encode())
        return lambda text: before + json.dumps(text).encode() + after

    def _timed(self, event: bytes) -> bytes:
        due_s = self.answer.due_s + time.time() - time.monotonic()
        return event.removesuffix(b"}\n\n") + b', "simulated_time_s": %.6f}\n\n' % due_s

    async def _spoil(self, send: Send, tokens: float) -> None:
        """What the fault does once ``tokens`` are sent, infinity: all. Raises Cut."""
        assert self.fault
        due = tokens >= self.fault.number
        match self.fault.kind:
            case "cut" if due:
                raise Cut
            case "stall" if due:
                await asyncio.Event().wait()  # until the client leaves
            case "malformed" if due:
                await self._send(send, encode_data('{"choices": [{"delta"'))
            case "oversized":
                await self._send(send, b"data: " + b"x" * OVERSIZED_BYTES)
            case "endless" if tokens == math.inf:
                while True:
                    await self._send(send, self._event(Chunk((Delta(" and so on"),))))
                    await asyncio.sleep(0.01)

    def _event(self, chunk: Chunk) -> bytes:
        return encode_data(json.dumps(self.form.chunk(self.reply, chunk)))

    def _counts(self) -> Chunk:
        lies = self.fault is not None and self.fault.kind == "lies"
        return Chunk(usage=NONSENSE if lies else self.answer.usage, simulated=self.answer.simulated)

    def _start(self, headers: list[tuple[bytes, bytes]]) -> Message:
        simulated = [(SIMULATED_HEADER, label(self.answer.simulated)), (b"cache-control", b"no-store")]
        return {"type": "http.response.start", "status": 200, "headers": headers + simulated}


class Cut(Exception):
    """The connection is to end here."""


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
