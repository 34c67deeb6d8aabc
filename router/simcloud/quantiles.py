"""Quantiles of a stream in little memory: exact while values are few, in fine bins afterwards.

Owns one running summary. Knows nothing of what the values mean.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence

EXACT_VALUES = 20_000
BINS_PER_E_FOLD = 2000  # a bin is 0.05 % wide
SMALLEST = 1e-9


class Quantiles:
    """Adds values, each ``count`` times, and answers mean and quantiles of all of them."""

    __slots__ = ("_bins", "_values", "count", "largest", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.largest = 0.0
        self._values: array[float] | None = array("d")
        self._bins: dict[int, int] = {}

    def add(self, value: float, count: int = 1) -> None:
        self.count += count
        self.total += value * count
        self.largest = max(self.largest, value)
        if self._values is not None and count == 1 and len(self._values) < EXACT_VALUES:
            self._values.append(value)
            return
        if self._values is not None:
            self._to_bins()
        number = _bin(value)
        self._bins[number] = self._bins.get(number, 0) + count

    def add_series(self, first: float, growth: float, steps: int, count: int) -> None:
        """first, first + growth, ... : ``steps`` values, ``count`` times each."""
        last = first + growth * (steps - 1)
        if self._values is not None:
            self._to_bins()
        self.count += steps * count
        self.total += count * (steps * first + growth * steps * (steps - 1) / 2)
        self.largest = max(self.largest, last)
        low, high = _bin(first), _bin(last)
        before = 0
        for number in range(low, high):
            upto = min(steps, math.floor((_upper(number) - first) / growth) + 1)
            self._bins[number] = self._bins.get(number, 0) + (upto - before) * count
            before = upto
        self._bins[high] = self._bins.get(high, 0) + (steps - before) * count

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.count else None

    def absorb(self, other: Quantiles) -> None:
        """Another stream's values join this one's."""
        if other._values is not None:
            for value in other._values:
                self.add(value)
            return
        if self._values is not None:
            self._to_bins()
        self.count += other.count
        self.total += other.total
        self.largest = max(self.largest, other.largest)
        for number, inside in other._bins.items():
            self._bins[number] = self._bins.get(number, 0) + inside

    def at(self, quantiles: Iterable[float]) -> list[float | None]:
        """Values at the quantiles (0 to 1), interpolated between neighbours while exact."""
        wanted = list(quantiles)
        if not self.count:
            return [None for _ in wanted]
        if self._values is not None:
            ordered = sorted(self._values)
            return [_interpolated(ordered, quantile) for quantile in wanted]
        numbers = sorted(self._bins)
        return [self._binned(numbers, quantile) for quantile in wanted]

    def _to_bins(self) -> None:
        values, self._values = self._values or array("d"), None
        for value in values:
            number = _bin(value)
            self._bins[number] = self._bins.get(number, 0) + 1

    def _binned(self, numbers: Sequence[int], quantile: float) -> float:
        rank = quantile * (self.count - 1)
        before = 0
        for number in numbers:
            inside = self._bins[number]
            if rank < before + inside:
                low = _upper(number - 1)
                return min(self.largest, low + (_upper(number) - low) * (rank - before + 0.5) / inside)
            before += inside
        return self.largest


def _bin(value: float) -> int:
    return math.floor(math.log(max(value, SMALLEST)) * BINS_PER_E_FOLD)


def _upper(number: int) -> float:
    return math.exp((number + 1) / BINS_PER_E_FOLD)


def _interpolated(ordered: Sequence[float], quantile: float) -> float:
    place = quantile * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
