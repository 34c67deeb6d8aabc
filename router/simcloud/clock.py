"""The virtual clock: seconds that do not drift, however many steps are added up.

Owns compensated addition (Neumaier), so that a million single steps and one jump over
them read the same to 1e-9 s. Knows nothing of what happens at a time.
"""

from __future__ import annotations

SAME_MOMENT_S = 1e-9
"""Times closer than this are one moment: an arrival on a step's boundary joins that step."""


class Clock:
    __slots__ = ("_lost_s", "now_s")

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s
        self._lost_s = 0.0

    def advance(self, seconds: float) -> None:
        seconds += self._lost_s
        total = self.now_s + seconds
        self._lost_s = (
            (self.now_s - total) + seconds if self.now_s >= seconds else (seconds - total) + self.now_s
        )
        self.now_s = total

    def jump(self, to_s: float) -> None:
        """Forwards only: nothing happened meanwhile."""
        if to_s > self.now_s:
            self.now_s, self._lost_s = to_s, 0.0
