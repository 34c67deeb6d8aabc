"""Who waits for a batch: levels of priority, how many may wait, and for how long.

Owns the order in which requests leave, and what happens to one whose time is over: it is
rejected, or deferred behind those of its level whose time is not. Does not know batches.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from router.errors import InvalidSimulation
from router.simcloud.clock import SAME_MOMENT_S
from router.simcloud.request import Job


@dataclass(frozen=True, slots=True)
class QueueRule:
    """Of one level: ``limit`` None takes any number, ``timeout_s`` None lets them wait for ever."""

    limit: int | None = None
    timeout_s: float | None = None
    on_timeout: Literal["reject", "defer"] = "reject"

    def __post_init__(self) -> None:
        if self.on_timeout not in ("reject", "defer"):
            raise InvalidSimulation(f"A timeout rejects or defers; it cannot {self.on_timeout!r}.")
        if (self.limit is not None and self.limit < 1) or (self.timeout_s is not None and self.timeout_s < 0):
            raise InvalidSimulation("A queue limit is at least 1, a timeout at least 0 seconds.")


@dataclass(slots=True)
class _Level:
    rule: QueueRule
    on_time: deque[Job] = field(default_factory=deque)
    deferred: deque[Job] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self.on_time) + len(self.deferred)

    def timeout_s(self) -> float:
        """When the first of them that is on time no longer is."""
        if self.rule.timeout_s is None or not self.on_time:
            return math.inf
        return self.on_time[0].request.arrived_s + self.rule.timeout_s


class LevelQueue:
    """Smaller priority first, each level as they arrived. ``rules`` by priority; others are as ``usual``."""

    def __init__(self, usual: QueueRule | None = None, rules: Mapping[int, QueueRule] | None = None) -> None:
        self._usual = usual or QueueRule()
        self._rules = rules or {}
        self._levels: dict[int, _Level] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def push(self, job: Job) -> bool:
        """False if its level is full."""
        level = self._level(job.request.priority)
        if level.rule.limit is not None and len(level) >= level.rule.limit:
            return False
        level.on_time.append(job)
        self._count += 1
        return True

    def pop(self, number: int) -> list[Job]:
        """The first ``number``: by level, and within it who was deferred last."""
        taken: list[Job] = []
        for level in self._levels.values():
            for line in (level.on_time, level.deferred):
                while line and len(taken) < number:
                    taken.append(line.popleft())
        self._count -= len(taken)
        return taken

    def oldest_s(self) -> float:
        """When the one that waits longest arrived."""
        fronts = (
            line[0] for level in self._levels.values() for line in (level.on_time, level.deferred) if line
        )
        return min((job.request.arrived_s for job in fronts), default=math.inf)

    def next_timeout_s(self) -> float:
        return min((level.timeout_s() for level in self._levels.values()), default=math.inf)

    def expire(self, now_s: float) -> list[Job]:
        """Whose time is over: deferred ones go behind their level, rejected ones are returned."""
        rejected: list[Job] = []
        for level in self._levels.values():
            while level.timeout_s() <= now_s + SAME_MOMENT_S:
                late = level.on_time.popleft()
                (level.deferred if level.rule.on_timeout == "defer" else rejected).append(late)
        self._count -= len(rejected)
        return rejected

    def _level(self, priority: int) -> _Level:
        level = self._levels.get(priority)
        if level is None:
            self._levels[priority] = level = _Level(self._rules.get(priority, self._usual))
            self._levels = dict(sorted(self._levels.items()))
        return level
