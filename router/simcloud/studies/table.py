"""What a study found, as values: rows, and the lines of its plot.

Owns the types alone; who prints or draws them is not known here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Series:
    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """``published``: what others found, and where this disagrees and why."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    notes: tuple[str, ...]
    published: tuple[str, ...]
    rows: tuple[dict[str, float | str], ...] = ()


def lines(rows: list[dict[str, float | str]], label: str, x: str, y: str) -> tuple[Series, ...]:
    """One line for each different value of ``label``, in order of appearance."""
    found: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        found.setdefault(str(row[label]), []).append((float(row[x]), float(row[y])))
    return tuple(
        Series(name, tuple(x for x, _ in points), tuple(y for _, y in points))
        for name, points in found.items()
    )
