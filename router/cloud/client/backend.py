"""A cloud as a backend: tries, deadlines, the breaker, and the answer as events.

Owns how long is waited and when it is tried again. HTTP is :mod:`router.cloud.client.connection`'s
business, what bytes mean :mod:`router.cloud.receive`'s, what an error means :mod:`router.cloud.wire`'s.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from router.cloud.breaker import Breaker
from router.cloud.client.connection import Connection, Response, malformed
from router.cloud.keys import ApiKey, FoundKey
from router.cloud.receive import Receiver, Sent
from router.cloud.retry import Retries, retry_after_s
from router.cloud.target import Target
from router.cloud.wire import NotAsAgreed, error_from_json, loads, request_to_json
from router.errors import (
    CloudCutOff,
    CloudError,
    CloudFault,
    CloudMalformed,
    CloudResting,
    CloudTimeout,
    CloudUnreachable,
    RouterError,
)
from router.request import ChatRequest, Event, Finished, Notice

T = TypeVar("T")
ILL = (CloudUnreachable, CloudFault, CloudTimeout, CloudCutOff, CloudMalformed)
"""Errors that say the cloud is not well; with all others it works and does not like the request."""

MAX_BODY_BYTES = 8 << 20  # of an answer that is not streamed
MAX_ERROR_BYTES = 64 << 10
ERROR_PATIENCE_S = 5.0  # for the body of an error, which only adds words
LAST_BYTES_PATIENCE_S = 0.05  # after the end, so that the connection can be used again
STREAM_TYPES = ("text/event-stream", "")  # some servers say nothing

WAITS = {
    "first_token": "The cloud did not begin to answer in time.",
    "idle": "The cloud stopped in the middle of the answer.",
    "total": "The cloud's answer did not end in time.",
}


@dataclass(slots=True)
class _Call:
    """One request over all its tries; instants are of the backend's clock."""

    body: bytes
    sent: Sent
    key: ApiKey | None
    first_token_by_s: float
    end_by_s: float

    def redact(self, data: bytes) -> bytes:
        """What a server sent, with the key struck out where it quotes it."""
        return self.key.redact(data) if self.key else data


class CloudBackend:
    """A :class:`~router.backend.Backend` over HTTP."""

    def __init__(
        self,
        target: Target,
        find_key: Callable[[], FoundKey],
        *,
        retries: Retries | None = None,
        breaker: Breaker | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """``find_key`` is called once, in a thread, with the first request: a keyring may ask the person."""
        self.target = target
        self._find_key = find_key
        self._found: FoundKey | None = None
        self._connection = Connection(target.address, target.deadlines.connect_s)
        self._retries = retries or Retries()
        self._breaker = breaker or Breaker()
        self._clock, self._sleep, self._chance = clock, sleep, chance

    @property
    def model(self) -> str:
        return self.target.model

    async def close(self) -> None:
        """Close idle connections. Idempotent; a later request connects again."""
        await self._connection.close()

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        """As :class:`~router.backend.Backend`; a Notice says that it is tried again."""
        call = await self._prepared(request)
        failures = 0
        while True:
            receiver = Receiver(call.sent)
            try:
                async with aclosing(self._try(call, receiver)) as events:
                    async for event in events:
                        yield event
                return
            except RouterError as raised:
                error = raised
            failures += 1
            wait_s = self._wait_s(error, failures, call)
            if receiver.begun or wait_s is None:
                raise error
            yield Notice(f"{error.message} Trying again in {wait_s:.1f} s.")
            await self._sleep(wait_s)

    async def _prepared(self, request: ChatRequest) -> _Call:
        target, now_s = self.target, self._clock()
        if target.temperature is not None:
            request = replace(request, sampling=replace(request.sampling, temperature=target.temperature))
        body = json.dumps(request_to_json(request, target.model, target.dialect)).encode()
        if self._found is None:
            self._found = await asyncio.to_thread(self._find_key)
        return _Call(
            body,
            Sent(now_s, target.model, len(body), request.sampling.max_tokens, target.price),
            self._found.key,
            now_s + target.deadlines.first_token_s,
            now_s + target.deadlines.total_s,
        )

    def _wait_s(self, error: RouterError, failures: int, call: _Call) -> float | None:
        left_s = min(call.first_token_by_s, call.end_by_s) - self._clock()
        return self._retries.wait_s(error, failures, left_s, self._chance())

    async def _try(self, call: _Call, receiver: Receiver) -> AsyncGenerator[Event, None]:
        """One try, if the breaker permits it; tells the breaker what it shows of the cloud's health."""
        if rest_s := self._breaker.permit(self._clock()):
            raise CloudResting(
                "The cloud failed several times in a row and is left alone for a while.",
                f"Try again in {rest_s:.0f} s, or let the local model answer.",
                retry_after_s=rest_s,
            )
        healthy: bool | None = None
        try:
            async with aclosing(self._exchange(call, receiver)) as events:
                async for event in events:
                    healthy = True if isinstance(event, Finished) else None
                    yield event
        except RouterError as error:
            healthy = not isinstance(error, ILL)
            raise
        finally:
            self._report(healthy)

    def _report(self, healthy: bool | None) -> None:
        if healthy is None:
            self._breaker.abandoned()
        elif healthy:
            self._breaker.succeeded()
        else:
            self._breaker.failed(self._clock())

    async def _exchange(self, call: _Call, receiver: Receiver) -> AsyncGenerator[Event, None]:
        """Send and read; the connection is closed whatever happens."""
        posting = self._connection.post(call.body, call.key)
        response = await self._by(call.first_token_by_s, "first_token", posting)
        try:
            if response.status != 200:
                raise await _refusal(response, call)
            async with aclosing(self._read(response, call, receiver)) as events:
                async for event in events:
                    yield event
            for event in receiver.finished():
                yield event
            await _last_bytes(response)
        finally:
            await response.close()

    async def _read(self, response: Response, call: _Call, receiver: Receiver) -> AsyncGenerator[Event, None]:
        if response.media_type == "application/json":
            body = await self._by(call.end_by_s, "total", _body(response, MAX_BODY_BYTES))
            for event in receiver.whole(call.redact(body), self._clock()):
                yield event
        elif response.media_type in STREAM_TYPES:
            async with aclosing(self._streamed(response, call, receiver)) as events:
                async for event in events:
                    yield event
        else:
            raise malformed(f"it answers with {response.media_type[:60]}")

    async def _streamed(
        self, response: Response, call: _Call, receiver: Receiver
    ) -> AsyncGenerator[Event, None]:
        moved_s = self._clock()
        while not receiver.done:
            idle_by_s = moved_s + self.target.deadlines.idle_s
            next_by = (idle_by_s, "idle") if receiver.begun else (call.first_token_by_s, "first_token")
            try:
                piece = await self._by(*min(next_by, (call.end_by_s, "total")), response.next())
            except (CloudCutOff, CloudTimeout):
                if receiver.complete:  # only the counts are missing
                    return
                raise
            now_s, piece = self._clock(), piece and call.redact(piece)
            for event in receiver.end_of_stream(now_s) if piece is None else receiver.feed(piece, now_s):
                yield event
                moved_s = self._clock()  # a reader that was slow is no stall
            if piece is None:
                return

    async def _by(self, instant_s: float, wait: str, step: Awaitable[T]) -> T:
        """``step``'s result by the backend's clock; ``wait`` names the setting that limits it."""
        try:
            async with asyncio.timeout(max(0.0, instant_s - self._clock())):
                return await step
        except TimeoutError:
            error = CloudTimeout(WAITS[wait], f"Raise {wait}_s in [cloud], or let the local model answer.")
        raise error


async def _refusal(response: Response, call: _Call) -> RouterError:
    """What an answer that is no completion means."""
    if where := response.redirects_to:
        return CloudError(
            f"The cloud has moved ({response.status}): it names {where}.",
            "If you trust that address, set base_url in [cloud] to it.",
            status=response.status,
        )
    body = b""
    with suppress(RouterError, TimeoutError):
        async with asyncio.timeout(ERROR_PATIENCE_S):
            body = call.redact(await _body(response, MAX_ERROR_BYTES))
    try:
        answer = loads(body)
    except NotAsAgreed:
        answer = {}
    return error_from_json(response.status, answer, retry_after_s(response.headers))


async def _body(response: Response, limit_bytes: int) -> bytes:
    body = bytearray()
    while (piece := await response.next()) is not None:
        body += piece
        if len(body) > limit_bytes:
            raise malformed(f"its answer is larger than {limit_bytes:,} bytes")
    return bytes(body)


async def _last_bytes(response: Response) -> None:
    """Read to the end if it is near."""
    with suppress(RouterError, TimeoutError):
        async with asyncio.timeout(LAST_BYTES_PATIENCE_S):
            while await response.next() is not None:
                pass
