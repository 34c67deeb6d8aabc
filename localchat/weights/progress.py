"""How far a download is. Knows a clock and counts of bytes, nothing of where they come from."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

TELL_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Progress:
    """``seconds_left`` is None while there is no rate yet."""

    name: str
    bytes: int
    total: int
    bytes_per_s: float
    seconds_left: float | None


Tell = Callable[[Progress], None]


class Meter:
    """Turns byte counts into Progress, at most ten times a second.

    The rate counts from the first ``update``: bytes of an earlier run do not
    make this one look fast.
    """

    def __init__(self, name: str, tell: Tell, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = name
        self._tell = tell
        self._clock = clock
        self._first: tuple[float, int] | None = None
        self._told_at = float("-inf")

    def update(self, done: int, total: int) -> None:
        now = self._clock()
        if self._first is None or done < self._first[1]:
            self._first = (now, done)
        if done != total and now - self._told_at < TELL_EVERY_S:
            return
        self._told_at = now
        began, done_before = self._first
        rate = (done - done_before) / (now - began) if now > began else 0.0
        left = (total - done) / rate if rate > 0 else None
        self._tell(Progress(self._name, done, total, rate, left))
