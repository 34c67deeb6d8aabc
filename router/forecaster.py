"""Puts a prediction into the stream of a reply, and lets it be learned from when the reply has ended.

Owns when a forecaster is asked and how long it is waited for: it works in a thread of its
own, and one that fails, hangs or knows nothing never costs the answer. Does not know how
a forecast is made.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from router.request import Delta, Event, Finished, Forecast, Predicted, Progress

PATIENCE_S = 0.5  # a forecast takes milliseconds; one that takes longer is done without

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Observed:
    """What the machine did while a reply was decoded; what nobody observed stays at its default.

    ``cores`` this program may use, of which others kept ``others_cores`` busy; ``clock``
    is the current over the usual clock, None where the system does not tell;
    ``own_cpu_s`` is processor time of this process: screen, saving, reading the engine.
    """

    seconds: float = 0.0
    cores: int = 1
    others_cores: float = 0.0
    clock: float | None = None
    own_cpu_s: float = 0.0


class Watch(Protocol):
    """Observes the machine during one reply."""

    def begin(self) -> None:
        """The first token has come."""
        ...

    def observed(self) -> Observed:
        """From the beginning until now."""
        ...


class Forecaster(Protocol):
    """Knows one model on this machine. Called in other threads, and may block them."""

    def prepare(self) -> None:
        """Do what can be done before the counts of a prompt are known. Idempotent."""
        ...

    def forecast(self, prompt_tokens: int, cached_tokens: int) -> Forecast | None:
        """For a reply to a prompt of which ``cached_tokens`` need no computing; None: nobody knows."""
        ...

    def watch(self) -> Watch:
        """For a reply that is about to begin."""
        ...

    def learn(self, forecast: Forecast, finished: Finished, observed: Observed) -> None:
        """A reply has ended that was predicted."""
        ...


class Aside:
    """A thread beside the program for questions that must not hold it up, one at a time.

    Not one of asyncio's own: those are few, others need them, and the program could not
    end while one of them hangs.
    """

    def __init__(self) -> None:
        self._thinking = False

    async def ask(self, question: Callable[[], Answer], patience_s: float | None = None) -> Answer | None:
        """The answer; None if it fails, comes too late, or an earlier question is still open."""
        if self._thinking:
            return None
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Answer | None] = loop.create_future()

        def settle(answer: Answer | None) -> None:
            if not answered.done():
                answered.set_result(answer)

        def think() -> None:
            answer: Answer | None = None
            try:
                answer = question()
            except Exception:
                _log_failure()
            self._thinking = False
            with suppress(RuntimeError):  # the loop has been closed meanwhile
                loop.call_soon_threadsafe(settle, answer)

        self._thinking = True
        threading.Thread(target=think, name="forecaster", daemon=True).start()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                return await answered
        return None


@dataclass(slots=True)
class _Reply:
    """What is known of one reply while it passes."""

    preparing: asyncio.Task[None]
    asked: bool = False
    forecast: Forecast | None = None
    watch: Watch | None = None
    begun: bool = False
    observed: Observed | None = None


class Prediction:
    """Predicts the replies of one backend."""

    def __init__(self, forecaster: Forecaster) -> None:
        self._forecaster = forecaster
        self._aside = Aside()

    async def join(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """The same events with Predicted before the first Delta, where there is a forecast.

        Closing it closes ``events``.
        """
        reply = _Reply(asyncio.ensure_future(self._prepare()))
        try:
            async with aclosing(events):
                async for event in events:
                    _observe(reply, event)
                    yield event
                    if isinstance(event, Progress) and event.stage == "prefill" and not reply.asked:
                        await self._predict(reply, event)
                        if reply.forecast:
                            yield Predicted(reply.forecast)
                    elif isinstance(event, Finished):
                        await self._learn(reply, event)
        finally:
            reply.preparing.cancel()

    async def _prepare(self) -> None:
        await self._aside.ask(self._forecaster.prepare)

    async def _predict(self, reply: _Reply, progress: Progress) -> None:
        total, cached = int(progress.total), int(progress.done)

        def both() -> tuple[Forecast | None, Watch]:
            return self._forecaster.forecast(total, cached), self._forecaster.watch()

        reply.asked = True
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await reply.preparing
                reply.forecast, reply.watch = await self._aside.ask(both) or (None, None)

    async def _learn(self, reply: _Reply, finished: Finished) -> None:
        forecast, observed = reply.forecast, reply.observed
        if forecast and observed:
            await self._aside.ask(lambda: self._forecaster.learn(forecast, finished, observed), PATIENCE_S)


def _observe(reply: _Reply, event: Event) -> None:
    """Observe the decoding: from the first token to the end."""
    if reply.watch is None:
        return
    try:
        if isinstance(event, Delta) and not reply.begun:
            reply.begun = True
            reply.watch.begin()
        elif isinstance(event, Finished) and reply.begun:
            reply.observed = reply.watch.observed()
    except Exception:
        _log_failure()
        reply.watch = None


def _log_failure() -> None:
    logging.getLogger(__name__).debug("a forecaster failed", exc_info=True)
