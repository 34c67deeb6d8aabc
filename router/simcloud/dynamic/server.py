"""The server: arrivals, queues, idle instances, and the order of events between them.

Owns the virtual time. At one moment, batches that end come first, then arrivals, then what
idle instances take, and last whose waiting time is over. When a batch is sent is ``rule``'s
answer, who is in it ``queue``'s, how long it takes ``batch_cost``'s.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from router.simcloud.clock import SAME_MOMENT_S
from router.simcloud.dynamic.queue import LevelQueue
from router.simcloud.dynamic.repository import Call, Repository, ServedModel
from router.simcloud.request import Job, Rejected, Request

FULL = "queue full"
TIMED_OUT = "waited too long"
NOT_SERVED = "model not served"


@dataclass(frozen=True, slots=True)
class Answered:
    """One request's life; ``first_s`` is its end, unless tokens are generated."""

    request: Request
    model: ServedModel
    instance: int
    batch: int
    started_s: float
    first_s: float
    finished_s: float
    output_tokens: int

    @property
    def queued_s(self) -> float:
        return self.started_s - self.request.arrived_s

    @property
    def latency_s(self) -> float:
        return self.finished_s - self.request.arrived_s

    @property
    def ttft_s(self) -> float:
        return self.first_s - self.request.arrived_s


Outcome = Answered | Rejected


@dataclass(slots=True, eq=False)
class _Desk:
    """A served model's queue and its instances."""

    model: ServedModel
    queue: LevelQueue
    idle: list[int]
    wakes_s: float = math.inf


@dataclass(order=True, slots=True)
class _Event:
    at_s: float
    number: int
    desk: _Desk = field(compare=False)
    instance: int = field(compare=False, default=-1)
    batch: list[Answered] = field(compare=False, default_factory=list)


class Server:
    """``calls`` in order of arrival. ``each`` is told every outcome, in the order of their ends."""

    def __init__(
        self, repository: Repository, calls: Iterable[Call], each: Callable[[Outcome], None]
    ) -> None:
        self.now_s = 0.0
        self.arrived = self.answered = self.rejected = self.running = 0
        self._repository = repository
        self._each = each
        self._calls: Iterator[Call] = iter(calls)
        self._next = next(self._calls, None)
        self._events: list[_Event] = []
        self._numbers = count()
        self._desks = {
            (model.name, model.version): _Desk(
                model, LevelQueue(model.queue, model.levels), list(range(model.instances))
            )
            for model in repository.served
        }

    @property
    def queued(self) -> int:
        return sum(len(desk.queue) for desk in self._desks.values())

    def run(self, until_s: float = math.inf) -> None:
        """Everything that happens before ``until_s``."""
        while (at_s := self._next_s()) < until_s:
            self.now_s = at_s
            touched: dict[int, _Desk] = {}
            while self._events and self._events[0].at_s <= at_s + SAME_MOMENT_S:
                event = heapq.heappop(self._events)
                self._end(event)
                touched[id(event.desk)] = event.desk
            while self._next is not None and self._next.job.request.arrived_s <= at_s + SAME_MOMENT_S:
                call, self._next = self._next, next(self._calls, None)
                desk = self._arrive(call)
                if desk is not None:
                    touched[id(desk)] = desk
            for desk in touched.values():
                self._send(desk)
                for late in desk.queue.expire(at_s):
                    self._reject(late, TIMED_OUT)
                self._wake(desk)

    def _next_s(self) -> float:
        arrival_s = math.inf if self._next is None else self._next.job.request.arrived_s
        return min(arrival_s, self._events[0].at_s if self._events else math.inf)

    def _arrive(self, call: Call) -> _Desk | None:
        self.arrived += 1
        model = self._repository.find(call.model, call.version)
        if model is None:
            self._reject(call.job, NOT_SERVED)
            return None
        desk = self._desks[model.name, model.version]
        if not desk.queue.push(call.job):
            self._reject(call.job, FULL)
        return desk

    def _send(self, desk: _Desk) -> None:
        """Idle instances take what the rule gives them."""
        while desk.idle and len(desk.queue):
            waited_s = self.now_s - desk.queue.oldest_s()
            size = desk.model.rule.size(len(desk.queue), waited_s)
            if not size:
                return
            self._begin(desk, desk.queue.pop(size))

    def _begin(self, desk: _Desk, members: list[Job]) -> None:
        instance = heapq.heappop(desk.idle)
        first_s, end_s = (self.now_s + seconds for seconds in desk.model.cost.times(members))
        batch = [
            Answered(job.request, desk.model, instance, len(members), self.now_s, first_s, end_s, job.length)
            for job in members
        ]
        self.running += len(batch)
        heapq.heappush(self._events, _Event(end_s, next(self._numbers), desk, instance, batch))

    def _end(self, event: _Event) -> None:
        """A batch ends; an event without one only wakes its desk."""
        if event.instance < 0:
            event.desk.wakes_s = math.inf
            return
        heapq.heappush(event.desk.idle, event.instance)
        self.running -= len(event.batch)
        self.answered += len(event.batch)
        for answered in event.batch:
            self._each(answered)

    def _wake(self, desk: _Desk) -> None:
        """When to look again though nothing arrives or ends."""
        if not len(desk.queue):
            return
        when_s = desk.queue.next_timeout_s()
        if desk.idle:
            when_s = min(when_s, desk.queue.oldest_s() + desk.model.rule.max_delay_s)
        if when_s < desk.wakes_s:
            desk.wakes_s = when_s
            heapq.heappush(self._events, _Event(when_s, next(self._numbers), desk))

    def _reject(self, job: Job, why: str) -> None:
        self.rejected += 1
        self._each(Rejected(job.request, self.now_s, why))
