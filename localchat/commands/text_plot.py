"""Lines drawn with characters: several series in 80 columns, told apart without colour.

Owns scales, the grid of cells and the legend. A letter stands where a series has a point,
dots lie between; a cell that several share is a star.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Protocol

from localchat.plotting import is_logarithmic

WIDTH, HEIGHT = 66, 16
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SHARED, BETWEEN = "*", "."
Cells = list[list[str]]


class Line(Protocol):
    @property
    def label(self) -> str: ...
    @property
    def x(self) -> Sequence[float]: ...
    @property
    def y(self) -> Sequence[float]: ...


class Scale:
    """From values to 0 ... ``last``, straight or logarithmic. Values that are not finite are not shown."""

    def __init__(self, values: Sequence[float], last: int) -> None:
        self.logarithmic = is_logarithmic(values)
        self.low, self.high = min(values), max(values)
        if not self.logarithmic and 0 < self.low < self.high / 2:
            self.low = 0.0
        self.last = last

    def place(self, value: float) -> int:
        low, high, at = (self._bent(each) for each in (self.low, self.high, value))
        return round(self.last * (at - low) / (high - low)) if high > low else self.last // 2

    def value(self, share: float) -> float:
        low, high = self._bent(self.low), self._bent(self.high)
        at = low + share * (high - low)
        return math.exp(at) if self.logarithmic else at

    def _bent(self, value: float) -> float:
        return math.log(value) if self.logarithmic else value


def text_plot(series: Sequence[Line], x_label: str, y_label: str) -> Iterator[str]:
    """Lines of at most 80 characters; none if there is nothing to draw."""
    lines = [(each.label, points) for each in series if (points := _finite(each))]
    if not lines:
        return
    across = Scale([x for _, points in lines for x, _ in points], WIDTH - 1)
    up = Scale([y for _, points in lines for _, y in points], HEIGHT - 1)
    cells = _drawn([points for _, points in lines], across, up)
    yield _named(y_label, up)
    for number, row in enumerate(cells):
        tick = 1 - number / (HEIGHT - 1)
        label = _short(up.value(tick)) if number in (0, HEIGHT // 2, HEIGHT - 1) else ""
        yield f"{label:>9} |{''.join(row)}".rstrip()
    yield f"{'':>9} +{'-' * WIDTH}"
    left, middle, right = (_short(across.value(share)) for share in (0.0, 0.5, 1.0))
    half = WIDTH // 2
    yield f"{'':>11}{left:<{half - 3}}{middle:^6}{right:>{WIDTH - half - 3}}"
    yield f"{_named(x_label, across):>{11 + WIDTH}}"
    yield from _legend([label for label, _ in lines], any(SHARED in row for row in cells))


def _finite(line: Line) -> list[tuple[float, float]]:
    pairs = zip(line.x, line.y, strict=True)
    return sorted((x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y))


def _drawn(lines: Sequence[Sequence[tuple[float, float]]], across: Scale, up: Scale) -> Cells:
    cells = [[" "] * WIDTH for _ in range(HEIGHT)]
    placed = [[(across.place(x), HEIGHT - 1 - up.place(y)) for x, y in points] for points in lines]
    for points in placed:
        for begin, end in pairwise(points):
            _dots(cells, begin, end)
    for letter, points in zip(LETTERS, placed, strict=False):
        for column, row in dict.fromkeys(points):
            cells[row][column] = letter if cells[row][column] in (" ", BETWEEN) else SHARED
    return cells


def _dots(cells: Cells, begin: tuple[int, int], end: tuple[int, int]) -> None:
    steps = max(abs(end[0] - begin[0]), abs(end[1] - begin[1]))
    for step in range(1, steps):
        column, row = (round(a + (b - a) * step / steps) for a, b in zip(begin, end, strict=True))
        cells[row][column] = BETWEEN


def _named(label: str, scale: Scale) -> str:
    return f"{label} (logarithmic)" if scale.logarithmic else label


def _legend(labels: Sequence[str], shared: bool) -> Iterator[str]:
    entries = [f"{letter} {label}" for letter, label in zip(LETTERS, labels, strict=False)]
    line = ""
    for entry in [*entries, *([f"{SHARED} several"] if shared else [])]:
        if line and len(line) + 3 + len(entry) > 80:
            yield line
            line = ""
        line = f"{line}   {entry}" if line else entry
    yield line


def _short(value: float) -> str:
    if value and not 0.001 <= abs(value) < 1e7:
        return f"{value:.1e}"
    form: Callable[[float], str] = "{:,.0f}".format if abs(value) >= 100 else "{:.3g}".format
    return form(value)
