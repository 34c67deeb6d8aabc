"""A measured function of one variable, straight between its points and beyond its ends.

Knows no kernels.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping


class Curve:
    __slots__ = ("knots", "values")

    def __init__(self, points: Mapping[float, float] | Iterable[tuple[float, float]]) -> None:
        ordered = sorted(dict(points).items())
        self.knots = [knot for knot, _ in ordered]
        self.values = [value for _, value in ordered]

    def at(self, x: float) -> float:
        piece = self.piece(x)
        knots, values = self.knots, self.values
        if len(knots) == 1:
            return values[0]
        share = (x - knots[piece]) / (knots[piece + 1] - knots[piece])
        return values[piece] + share * (values[piece + 1] - values[piece])

    def slope(self, piece: int) -> float:
        if len(self.knots) == 1:
            return 0.0
        rise = self.values[piece + 1] - self.values[piece]
        return rise / (self.knots[piece + 1] - self.knots[piece])

    def piece(self, x: float) -> int:
        """Which straight piece ``x`` is on, the first or last one if it is outside."""
        return max(0, min(bisect_right(self.knots, x) - 1, len(self.knots) - 2))


def between(knots: list[int], x: float) -> tuple[int, int, float]:
    """The knots around ``x`` and the second one's share; beyond the ends, shares beyond 0 to 1."""
    place = max(0, min(bisect_right(knots, x) - 1, len(knots) - 2))
    low, high = knots[place], knots[place + 1]
    return low, high, (x - low) / (high - low)
