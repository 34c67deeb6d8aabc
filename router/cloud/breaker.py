"""Leaves a cloud alone after it failed several times in a row, then tries it with one request.

Pure: the time is an argument, and nothing here waits. Does not know what failed.

    closed --failures in a row--> open --rest_s--> half-open --success--> closed
                                    ^------------------ failure --'
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["closed", "open", "half-open"]


@dataclass(slots=True)
class Breaker:
    """``rest_s`` doubles with every failed trial, up to ``longest_rest_s``.

    Every :meth:`permit` that answers 0 is followed by exactly one of succeeded, failed, abandoned.
    """

    failures_to_open: int = 5
    rest_s: float = 15.0
    longest_rest_s: float = 300.0
    _failures: int = 0
    _opened_at_s: float | None = None
    _rests: int = 0
    _trying: bool = False

    def state(self, now_s: float) -> State:
        if self._opened_at_s is None:
            return "closed"
        return "half-open" if now_s >= self._opened_at_s + self._rest_s() else "open"

    def permit(self, now_s: float) -> float:
        """0 where a request may be sent; else the seconds until one may (at least a moment)."""
        if self._opened_at_s is None:
            return 0.0
        left_s = self._opened_at_s + self._rest_s() - now_s
        if left_s > 0:
            return left_s
        if self._trying:
            return 1.0  # another request is the trial; its end decides
        self._trying = True
        return 0.0

    def succeeded(self) -> None:
        self._failures, self._opened_at_s, self._rests, self._trying = 0, None, 0, False

    def failed(self, now_s: float) -> None:
        if self._opened_at_s is not None:
            if self._trying:  # else a request from before the opening: it says nothing new
                self._opened_at_s, self._trying = now_s, False
                self._rests += 1
            return
        self._failures += 1
        if self._failures >= self.failures_to_open:
            self._opened_at_s = now_s

    def abandoned(self) -> None:
        """The request ended without showing whether the cloud works."""
        self._trying = False

    def _rest_s(self) -> float:
        return float(min(self.rest_s * 2 ** min(self._rests, 30), self.longest_rest_s))
