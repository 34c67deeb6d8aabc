"""A network link that several transfers share: each gets an equal part of it at any moment.

Owns when transfers end. By virtual service: what every transfer in progress has got since the link
began grows at bandwidth / transfers, so a transfer ends when that passes its start's by its bytes.
Knows nothing of what is carried.
"""

from __future__ import annotations

import heapq
import math
from itertools import count

from router.errors import InvalidSimulation


class SharedLink:
    """``latency_s`` comes once for each transfer, after its bytes, and takes no bandwidth."""

    __slots__ = ("_ends", "_now_s", "_numbers", "_served", "busy_s", "bytes_per_s", "carried", "latency_s")

    def __init__(self, bytes_per_s: float, latency_s: float = 0.0) -> None:
        if not (0 < bytes_per_s < math.inf and 0 <= latency_s < math.inf):
            raise InvalidSimulation("A link carries something each second, and takes no negative time.")
        self.bytes_per_s = bytes_per_s
        self.latency_s = latency_s
        self.busy_s = 0.0
        self.carried = 0.0
        self._now_s = 0.0
        self._served = 0.0  # bytes that a transfer would have got, had it been there all along
        self._ends: list[tuple[float, int]] = []  # (served when it ends, its number)
        self._numbers = count()

    @property
    def transfers(self) -> int:
        return len(self._ends)

    def start(self, at_s: float, size: float) -> int:
        """A transfer of ``size`` bytes; its number."""
        self._advance(at_s)
        number = next(self._numbers)
        if not self._ends:
            self._served = 0.0
        heapq.heappush(self._ends, (self._served + size, number))
        self.carried += size
        return number

    def next_end_s(self) -> float:
        """When the first of those in progress has all its bytes, if none is added."""
        served, _ = self._ends[0]
        return self._now_s + max(0.0, served - self._served) * len(self._ends) / self.bytes_per_s

    def finish_first(self) -> tuple[int, float]:
        """Goes on to that moment: the transfer's number, and when it is there, latency included."""
        end_s = self.next_end_s()
        self._advance(end_s)
        served, number = heapq.heappop(self._ends)
        self._served = served
        return number, end_s + self.latency_s

    def _advance(self, to_s: float) -> None:
        passed_s = max(0.0, to_s - self._now_s)
        if self._ends:
            self._served += passed_s * self.bytes_per_s / len(self._ends)
            self.busy_s += passed_s
        self._now_s += passed_s
