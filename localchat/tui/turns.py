"""One turn at a time: reads its events and shows them.

Owns the worker that reads a turn, when the screen is refreshed meanwhile, and
how a turn is stopped: the computation first, then the words. Knows nothing of
keys or panels; what follows an overflow is the screen's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING

from textual.timer import Timer
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from localchat.errors import LocalchatError
from localchat.history import StoredMessage
from localchat.reply_speed import ReplySpeed, SpeedReport
from localchat.session import Started, TurnEvent
from localchat.tui.estimate import Typed, expected
from localchat.tui.figures import band_text
from localchat.tui.message import ReplyView, view_of
from localchat.tui.safe_text import displayable
from localchat.tui.status import TokenRate, progress_text
from router.errors import RouterError
from router.request import Delta, Failed, Finished, HandedOff, Notice, Predicted, Progress, Reclassified

if TYPE_CHECKING:
    from localchat.tui.chat import ChatScreen

FLUSH_EVERY_S = 0.1
"""New text reaches the screen at most ten times a second: more costs CPU the model needs."""
FLUSH_COVERED_EVERY_S = 0.5
"""Below a panel: there each refresh paints the panel anew as well."""
LEAVE_WITHIN_S = 5.0
"""A model that does not stop must not keep the program: its process is ended next."""


@dataclass(slots=True)
class _Turn:
    """What is known of the turn in progress."""

    view: ReplyView | None = None
    rate: TokenRate = field(default_factory=TokenRate)
    error: RouterError | None = None
    finished: Finished | None = None
    speed: ReplySpeed = field(default_factory=ReplySpeed)


class Turns:
    """Runs the model for a chat: loading, turns, summaries."""

    def __init__(self, chat: ChatScreen) -> None:
        self._chat, self._program = chat, chat.program
        self._transcript, self._status = chat.transcript, chat.status
        self._worker: Worker[None] | None = None
        self._loading: Worker[None] | None = None
        self._load_ended = asyncio.Event()  # not the worker itself: stopping a turn must not stop the load
        self._turn = _Turn()
        self._cached_leaf: int | None = None  # the reply that the engine computed last
        self._flush_timer: Timer | None = None
        self._flushed_at_s = 0.0
        self._drawing = asyncio.Lock()  # a flush and the end of the turn must not interleave

    @property
    def running(self) -> bool:
        return self._worker is not None and not self._worker.is_finished

    # -- the model

    def load_model(self) -> None:
        self.show_model()
        self._cached_leaf = None
        self._load_ended.clear()
        self._loading = self._chat.run_worker(self._load(), group="load", exclusive=True)

    async def _load(self) -> None:
        try:
            async with aclosing(self._program.model.load()) as events:
                async for event in events:
                    if isinstance(event, Progress):
                        self._say_progress(event)
        except RouterError as error:
            self._say("no model")
            self._chat.notify_error(error)
        else:
            if not self.running:
                self._say("ready")
        finally:
            self._load_ended.set()
        self.show_model()

    def show_model(self) -> None:
        info = self._program.model.info
        self._status.show(
            replace(
                self._status.status,
                model=self._program.model.model,
                quantization=info.quantization if info else "",
                window_tokens=info.window_tokens if info else None,
            )
        )

    def show_usage(self, messages: Sequence[StoredMessage]) -> None:
        """What of the window the last reply among ``messages`` left used."""
        used_here = (m.usage for m in reversed(messages) if m.usage and m.usage.prompt_tokens)
        usage = next(used_here, None)  # one from the cache used nothing
        used = usage.prompt_tokens + usage.completion_tokens if usage else None
        self._status.show(replace(self._status.status, used_tokens=used))

    # -- starting and stopping

    def start(self, events: AsyncGenerator[TurnEvent, None]) -> None:
        assert not self.running
        self._begin()
        self._worker = self._chat.run_worker(self._run(events), group="turn", exclusive=False)

    def summarise(self, message_ids: Sequence[int], then: Callable[[bool], Awaitable[None]]) -> None:
        """Summarise messages; ``then`` is told whether it was done."""
        assert not self.running
        self._begin()
        self._worker = self._chat.run_worker(self._summarise(message_ids, then), group="turn")

    def _begin(self) -> None:
        self.show_estimate(())
        self._turn = _Turn(speed=ReplySpeed(self._program.forecaster))

    async def leave(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_WITHIN_S):
                await self.stop()
        if self._loading and not self._loading.is_finished:
            self._loading.cancel()
            with suppress(WorkerCancelled, WorkerFailed):
                await self._loading.wait()

    async def stop(self) -> None:
        """Returns when the model has stopped, what it said is saved, and the screen says so."""
        if self._worker is None or self._worker.is_finished:
            return
        self._say("stopping…")
        self._worker.cancel()
        with suppress(WorkerCancelled, WorkerFailed):
            await self._worker.wait()

    async def _run(self, events: AsyncGenerator[TurnEvent, None]) -> None:
        self._say("waiting for the model")
        try:
            async with aclosing(events):
                async for event in events:
                    await self._take(event)
        except LocalchatError as error:
            self._chat.notify_error(error)
        finally:
            await self._settle()

    async def _summarise(self, message_ids: Sequence[int], then: Callable[[bool], Awaitable[None]]) -> None:
        self._say("summarising")
        try:
            async with aclosing(self._program.session.room.summarise(message_ids)) as events:
                async for event in events:
                    await self._take(event)
        finally:
            self._stop_timer()
            self._turn.speed.end()
            self._say("ready")
            if error := self._turn.error:
                self._chat.notify_error(error)
            self._chat.call_next(then, self._turn.finished is not None)

    async def _take(self, event: TurnEvent) -> None:
        view = self._turn.view
        self._turn.speed.take(event, monotonic())
        match event:
            case Started():
                await self._show(event)
                if self._chat.session.mode != "cloud":  # there it loads in the background, if ever
                    await self._load_ended.wait()
            case Progress():
                self._say_progress(event)
            case Predicted(forecast):
                if view:
                    view.expect(forecast)
                    view.show_progress(", ".join(expected(forecast)))
                self._say(", ".join(expected(forecast)))
            case Delta() if view:
                self._turn.rate.add(monotonic(), len(event.scores))
                view.collect(event.text, event.kind == "reasoning")
                self._flush_soon()
            case Reclassified() if view:
                async with self._drawing:
                    await view.reclassify()
            case HandedOff(_, target):
                side = "the cloud" if target == "cloud" else "this machine"
                self._say(f"going on with {side}")
                self._chat.tell(f"Going on with {side}: {event.why}", "warning")
            case Notice():
                self._chat.notify(displayable(event.text), markup=False)
            case Finished():
                self._turn.finished = event
            case Failed():
                self._turn.error = event.error
            case _:
                pass

    async def _show(self, started: Started) -> None:
        self._turn.view = ReplyView(started.reply)  # first: a stop may come while the others are mounted
        if started.user:
            await self._transcript.append(view_of(started.user))
        await self._transcript.append(self._turn.view)
        self._chat.show_title()
        self._turn.view.show_progress("waiting for the model")

    # -- while it streams

    def _flush_soon(self) -> None:
        if self._flush_timer is None:
            # Textual drops timers of next to no time, so the shortest wait is a tenth of the period.
            covered = self._chat.app.screen is not self._chat
            every_s = FLUSH_COVERED_EVERY_S if covered else FLUSH_EVERY_S
            wait_s = max(FLUSH_EVERY_S / 10, self._flushed_at_s + every_s - monotonic())
            self._flush_timer = self._chat.set_timer(wait_s, self._flush)

    async def _flush(self) -> None:
        self._flush_timer = None
        self._flushed_at_s = monotonic()
        async with self._drawing:
            if self.running and self._turn.view:
                self._turn.view.show_progress("esc stops")
                await self._turn.view.flush()
                self._say("writing", self._turn.rate.per_s(monotonic()))

    def _say_progress(self, progress: Progress) -> None:
        if self._turn.view and self.running:
            self._turn.view.show_progress(progress_text(progress))
        self._say(progress_text(progress))

    def _say(self, state: str, tokens_per_s: float | None = None) -> None:
        forecast = self._turn.speed.forecast
        band = band_text(forecast.low, forecast.high) if forecast and not forecast.guessed else ""
        status = self._status.status
        self._status.show(replace(status, state=state, tokens_per_s=tokens_per_s, predicted=band))

    # -- speed

    def speed_report(self) -> SpeedReport:
        """Of the reply in progress, else of the last one."""
        return self._turn.speed.report()

    def show_estimate(self, words: tuple[str, ...]) -> None:
        """What sending would cost; it stands where the state is said while nothing else goes on."""
        self._status.show(replace(self._status.status, estimate=words))

    def typed(self, nbytes: int) -> Typed:
        """What ``nbytes`` more would make of the prompt. The engine has cached what it answered last."""
        used = self._status.status.used_tokens
        if used is None:
            return Typed(nbytes + len(self._program.session.system.encode()))
        return Typed(nbytes, used, used if self._program.session.leaf_id == self._cached_leaf else 0)

    # -- when it has ended

    def _stop_timer(self) -> None:
        if self._flush_timer:
            self._flush_timer.stop()
            self._flush_timer = None

    async def _settle(self) -> None:
        self._stop_timer()
        self._turn.speed.end()
        view, error = self._turn.view, self._turn.error
        self._say("ready")
        if view is None:
            self._chat.call_next(self._chat.turn_ended, None, None)
            return
        if not self._chat.is_running:
            return  # the program is ending; the session has saved the reply
        try:
            stored = self._program.session.message(view.stored.id)
        except LocalchatError as failure:  # deleted, or the disk is gone: what is shown stays
            self._chat.notify_error(failure)
            return
        if not view.is_attached:
            self._chat.call_next(self._chat.show_messages)
            return
        async with self._drawing:
            await view.finish(stored, error.message if error else "")
        self.show_model()
        if stored.usage and stored.usage.prompt_tokens:
            self._cached_leaf = stored.id
            self.show_usage([stored])
        self._chat.call_next(self._chat.turn_ended, stored, error)
