"""What a study finds: rows of figures, lines to draw, and the published result beside them.

Owns these values. Does not know how they are shown.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot: ``y`` at each ``x``."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """``rows`` have the same keys in the same order, which are the headings.

    ``published`` says what others found, ``notes`` on which workload this is and where it disagrees.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    notes: tuple[str, ...]
    published: tuple[str, ...]
    rows: tuple[dict[str, float | str], ...] = ()

    def as_dict(self) -> dict[str, object]:
        return asdict(self)
