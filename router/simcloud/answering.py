"""An answer of the simulated cloud: words from a text source, each at its simulated time.

Owns what is checked before an answer begins, and which comes later, a word or its time. Does
not know HTTP or JSON.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import Self
from zlib import crc32

from router.cloud.wire import Call
from router.errors import CloudBusy, CloudModelUnknown, ContextOverflow, InvalidRequest
from router.request import ChatRequest, FinishReason, Simulated, Usage
from router.simcloud.live import LiveServer, Ticket
from router.simcloud.text_source import Count, TextEnd, TextSource, TextToken

LATE_S = 0.005  # a token that comes so much after its time counts as late
BLOCK_CHARS = 64  # about 16 tokens: prompts that begin with the same ones share blocks of KV cache
BLOCK_TOKENS = 16
MOST_LIVE = 512  # requests over HTTP at once


@dataclass(slots=True)
class Pump:
    """Text as it is written, kept until it is due."""

    tokens: deque[TextToken]
    arrived_s: deque[float]
    end: TextEnd | None = None
    failed: BaseException | None = None
    _waiter: asyncio.Future[None] | None = None

    async def more(self) -> bool:
        """Waits for a token and leaves it; False at the end. Raises what the source raised."""
        while not self.tokens:
            if self.failed:
                raise self.failed
            if self.end:
                return False
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return True

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Answer:
    """One answer. ``async with``: leaving it stops the text and frees the simulated blocks."""

    def __init__(self, server: LiveServer, source: TextSource, request: ChatRequest, count: Count) -> None:
        self._server, self._source, self._request, self._count = server, source, request, count
        self._pump = Pump(deque(), deque())
        self._ticket: Ticket | None = None
        self._writing: asyncio.Task[None] | None = None
        self.tokens = 0
        self.late_tokens = 0
        self.due_s = 0.0  # of the token that came last, on the wall's clock

    async def __aenter__(self) -> Self:
        """In the simulated queue. Raises a RouterError where that cannot be."""
        limit = self._request.sampling.max_tokens
        assert limit is not None
        prefix = content_names(self._request, self._count.tokens)
        self._ticket = self._server.submit(self._count.tokens, limit, prefix=prefix)
        self._writing = asyncio.create_task(self._write(self._ticket))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._ticket:
            self._server.leave(self._ticket)
        if self._writing:
            self._writing.cancel()
            with suppress(asyncio.CancelledError):
                await self._writing

    async def written(self) -> None:
        """Something of the text is there: nothing that is wrong with the request can come after. Raises."""
        await self._pump.more()

    @property
    def simulated(self) -> Simulated:
        """As far as it is known now."""
        ticket = self._ticket
        assert ticket
        batch = ticket.batch or ticket.running
        return Simulated(
            self._server.gpu,
            ticket.queued,
            batch,
            ticket.queue_s,
            self._source.model,
            self.late_tokens,
            self._count.is_estimate,
            self._pump.end is not None and self._pump.end.partial,
        )

    @property
    def usage(self) -> Usage:
        cached = self._ticket.cached_tokens if self._ticket else 0
        return Usage(self._count.tokens, min(cached, self._count.tokens), self.tokens)

    async def next(self) -> TextToken | None:
        """The next token's text, before it is due (``due`` waits); None at the end, ``end`` says which.

        Raises a RouterError of the text source, in the middle too.
        """
        if not await self._pump.more():
            if not self.tokens:  # the end itself is what the first step computes
                await self._due(0)
            return None
        return self._pump.tokens.popleft()

    async def due(self) -> None:
        """Waits until the token that ``next`` gave is due; counts it, and whether its text came later."""
        written_s = self._pump.arrived_s.popleft()
        self.due_s = await self._due(self.tokens)
        self.tokens += 1
        if written_s > self.due_s + LATE_S:
            self.late_tokens += 1
            self._server.metrics.late_tokens += 1

    async def _due(self, index: int) -> float:
        assert self._ticket
        return self._server.wall_s(await self._ticket.token_s(index))

    @property
    def end(self) -> FinishReason:
        return self._pump.end.reason if self._pump.end else "unknown"

    async def _write(self, ticket: Ticket) -> None:
        pump, written = self._pump, 0
        try:
            async with aclosing(self._source.stream(self._request)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, TextEnd):
                        pump.end = piece
                        self._server.end_after(ticket, written)
                        break
                    written += 1
                    pump.tokens.append(piece)
                    pump.arrived_s.append(time.monotonic())
                    pump.wake()
        except Exception as error:  # it is the reader's
            pump.failed = error
        finally:
            pump.end = pump.end or TextEnd("unknown")
            pump.wake()


class SimulatedModel:
    """What is served: one model's name, a simulated server, and whoever writes the text."""

    def __init__(self, server: LiveServer, source: TextSource) -> None:
        self.server = server
        self.source = source

    @property
    def name(self) -> str:
        return f"{self.server.model}-simulated"

    @property
    def window_tokens(self) -> int:
        return min(self.server.window_tokens, self.source.window_tokens or self.server.window_tokens)

    async def begin(self, call: Call) -> Answer:
        """Everything that can be wrong is found here, before an answer begins. Raises a RouterError."""
        if call.model and call.model != self.name:
            raise CloudModelUnknown(f"There is no model {call.model[:100]!r} here.", f"There is {self.name}.")
        if call.request.tools:
            raise InvalidRequest("The simulated cloud calls no tools.", "Leave tools out.", param="tools")
        if self.server.live >= MOST_LIVE:
            raise CloudBusy("Too many requests are being answered.", "Wait.", retry_after_s=1.0)
        count = await self.source.count(call.request.messages)
        request = _bounded(call.request, count.tokens, self.window_tokens)
        return Answer(self.server, self.source, request, count)


def _bounded(request: ChatRequest, prompt_tokens: int, window_tokens: int) -> ChatRequest:
    """With a limit on the answer that the window holds. Raises ContextOverflow."""
    asked = request.sampling.max_tokens
    if prompt_tokens + (asked or 1) > window_tokens:
        raise ContextOverflow(prompt_tokens, window_tokens, asked or 0, remedy="ask for a shorter answer")
    limit = asked or window_tokens - prompt_tokens
    return replace(request, sampling=replace(request.sampling, max_tokens=limit))


def content_names(request: ChatRequest, prompt_tokens: int) -> tuple[int, ...]:
    """Names of the prompt's blocks: equal as far as two prompts begin with the same text."""
    text = "\0".join(f"{message.role}\0{message.content}" for message in request.messages)
    blocks = prompt_tokens // BLOCK_TOKENS
    places = range(0, BLOCK_CHARS * min(blocks, len(text) // BLOCK_CHARS), BLOCK_CHARS)
    return tuple(crc32(text[place : place + BLOCK_CHARS].encode("utf-8", "replace")) for place in places)
