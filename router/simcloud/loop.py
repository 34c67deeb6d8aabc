"""Arrivals, engines and the order of events between them.

Owns the heap of what is still to happen, and how far each engine may run before that.
Knows nothing inside an engine; who gets a request is a function given to it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

from router.simcloud.clock import SAME_MOMENT_S
from router.simcloud.engine import Engine
from router.simcloud.request import Job

Route = Callable[[Job, Sequence[Engine]], Engine]


def first_engine(job: Job, engines: Sequence[Engine]) -> Engine:
    return engines[0]


class Loop:
    """``jobs`` in order of arrival. ``dependent``: ends of requests may cause events (``at``), so engines
    advance only as far as no other engine can still cause something before; ends in ``quiet`` engines
    never do. ``submit`` instead of ``route``: what becomes of a job."""

    def __init__(
        self,
        engines: Sequence[Engine],
        jobs: Iterable[Job],
        route: Route = first_engine,
        dependent: bool = False,
        quiet: Sequence[Engine] = (),
        submit: Callable[[Job], None] | None = None,
    ) -> None:
        self.engines = tuple(engines)
        self._quiet = tuple(quiet)
        self._causes = tuple(engine for engine in engines if engine not in self._quiet)
        self.arrived = 0
        self._jobs: Iterator[Job] = iter(jobs)
        self._route = route
        self._submit = submit or self._to_an_engine
        self._dependent = dependent
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._pull()

    def at(self, when_s: float, happens: Callable[[], None]) -> None:
        """Something that happens at a time that is not past."""
        heapq.heappush(self._events, (when_s, next(self._numbers), happens))

    def submit(self, job: Job) -> None:
        self.arrived += 1
        self._submit(job)

    def _to_an_engine(self, job: Job) -> None:
        self._route(job, self.engines).submit(job)

    def run(self, progress: Callable[[int, float], None] | None = None) -> None:
        """Until nothing is left to happen."""
        while self._events or any(engine.busy for engine in self.engines):
            self._advance(self._events[0][0] if self._events else math.inf)
            if self._events and self._reached(self._events[0][0]):
                when_s, _, happens = heapq.heappop(self._events)
                happens()
                if progress is not None:
                    progress(self.arrived, when_s)

    def _pull(self) -> None:
        job = next(self._jobs, None)
        if job is not None:
            self.at(job.request.arrived_s, lambda: self._arrive(job))

    def _arrive(self, job: Job) -> None:
        self.submit(job)
        self._pull()

    def _reached(self, when_s: float) -> bool:
        return not self._dependent or all(
            not engine.busy or engine.now_s >= when_s - SAME_MOMENT_S for engine in self.engines
        )

    def _advance(self, until_s: float) -> None:
        if not self._dependent:
            for engine in self.engines:
                engine.advance(until_s)
            return
        behind = sorted((engine for engine in self._causes if engine.busy), key=lambda engine: engine.now_s)
        for engine in self._quiet:
            engine.advance(min(until_s, behind[0].now_s) if behind else until_s)
        if behind:
            other_s = behind[1].now_s + 2 * SAME_MOMENT_S if len(behind) > 1 else math.inf
            behind[0].advance(min(until_s, other_s), stop_when_done=True)
