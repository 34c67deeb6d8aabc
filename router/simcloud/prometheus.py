"""Prometheus' text format: histograms, and lines with names, types and labels.

Knows nothing of what is counted. Format:
https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts of values up to each bound; memory does not grow with values."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last is for values above all bounds
        self.total = 0.0

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, value: float, count: int = 1) -> None:
        self.counts[bisect_left(self.bounds, value)] += count
        self.total += value * count


class Page:
    """Text for a scraper, metric by metric. ``labels`` are on every line."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = dict(labels)
        self._lines: list[str] = []

    def counter(self, name: str, text: str, value: float, **labels: str) -> None:
        self._head(name, text, "counter")
        self._line(name, value, labels)

    def counters(self, name: str, text: str, label: str, values: Mapping[str, float]) -> None:
        """One line for each value of a label."""
        self._head(name, text, "counter")
        for word, value in values.items():
            self._line(name, value, {label: word})

    def gauge(self, name: str, text: str, value: float, **labels: str) -> None:
        self._head(name, text, "gauge")
        self._line(name, value, labels)

    def histogram(self, name: str, text: str, values: Histogram) -> None:
        self._head(name, text, "histogram")
        for bound, count in zip(_bounds(values), accumulate(values.counts), strict=True):
            self._line(f"{name}_bucket", count, {"le": bound})
        self._line(f"{name}_sum", values.total, {})
        self._line(f"{name}_count", values.count, {})

    def __str__(self) -> str:
        return "\n".join([*self._lines, ""])

    def _head(self, name: str, text: str, kind: str) -> None:
        self._lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]

    def _line(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        shown = ",".join(f'{key}="{_quoted(text)}"' for key, text in {**self._labels, **labels}.items())
        self._lines.append(f"{name}{{{shown}}} {value!r}" if shown else f"{name} {value!r}")


def _bounds(values: Histogram) -> Iterator[str]:
    yield from (repr(float(bound)) for bound in values.bounds)
    yield "+Inf"


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
