"""Pictures of figures, as PNG or SVG. matplotlib draws; it comes with the extra ``plot``."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.errors import LocalchatError, UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
MARKS = "os^vDP*X<>"
"""Of points, so that lines are told apart in print."""

LOGARITHMIC_FROM = 50.0
"""A scale is logarithmic if its values are positive and the largest is this many times the smallest."""


@dataclass(frozen=True, slots=True)
class Series:
    label: str
    x: Sequence[float]
    y: Sequence[float]


def check_plot_file(file: Path) -> None:
    """Before the work: can it be drawn and written? Raises UsageError or LocalchatError."""
    if file.suffix.lower() not in FORMATS:
        raise UsageError(f"{file} is neither a .png nor a .svg file.")
    if not file.parent.is_dir():
        raise UsageError(f"There is no folder {file.parent}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise LocalchatError("Pictures need matplotlib.", "Install it: pip install 'localchat[plot]'")


def is_logarithmic(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) / min(values) >= LOGARITHMIC_FROM


def save_scatter(file: Path, series: Sequence[Series], x: str, y: str, *, diagonal: bool = False) -> None:
    """Points; ``diagonal`` adds the line where both axes are equal."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot()
    for each in series:
        axes.plot(each.x, each.y, "o", label=each.label)
    if diagonal:
        most = max((value for each in series for value in (*each.x, *each.y)), default=1.0)
        axes.plot([0, most], [0, most], color="grey", linewidth=1, label="as predicted")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend()
    _save(figure, file)


def save_lines(file: Path, series: Sequence[Series], x: str, y: str, title: str) -> None:
    """A line with its points for each series; scales that span far are logarithmic."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot()
    for each, mark in zip(series, cycle(MARKS)):
        axes.plot(each.x, each.y, marker=mark, label=each.label)
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if is_logarithmic([value for each in series for value in each.x]):
        axes.set_xscale("log")
    if is_logarithmic([value for each in series for value in each.y]):
        axes.set_yscale("log")
    if series:
        axes.legend()
    _save(figure, file)


def _save(figure: Figure, file: Path) -> None:
    try:
        figure.savefig(file)
    except OSError as error:
        raise LocalchatError(f"{file} cannot be written: {error.strerror}.") from error
