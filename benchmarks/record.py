"""What every benchmark says: rows with goals, as a table for people and as JSON.

A benchmark reads::

    def main() -> None:
        args = arguments(__doc__).parse_args()
        with recording("decode", args) as record:
            record.row("decode rate", samples, "tokens/s", "≥ 20")

A goal that is not met prints as MISSED; it fails nothing, it is there to be seen.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.machine import (
    Commit,
    Machine,
    Work,
    between,
    read,
    this_commit,
    this_machine,
    wait_until_quiet,
)


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. ``met`` None: it has no goal. ``samples``: the repeats it is the median of."""

    name: str
    value: float
    unit: str = ""
    goal: str = ""
    met: bool | None = None
    note: str = ""
    samples: tuple[float, ...] = ()

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest of the samples."""
        return (min(self.samples), max(self.samples)) if self.samples else (self.value, self.value)


def measured(
    name: str, samples: Sequence[float] | float, unit: str = "", goal: str = "", note: str = ""
) -> Row:
    """The row for the median of ``samples``, judged by a goal such as "≤ 150" or "≥ 0.95"."""
    values = (float(samples),) if isinstance(samples, int | float) else tuple(samples)
    value = statistics.median(values)
    return Row(name, value, unit, goal, meets(value, goal) if goal else None, note, values)


def meets(value: float, goal: str) -> bool:
    """``goal`` is a sign (≤, <, ≥, >, =) and a number, thousands with commas."""
    sign, number = goal[:1], float(goal[1:].replace(",", "").strip().rstrip("%×"))
    match sign:
        case "≤":
            return value <= number
        case "<":
            return value < number
        case "≥":
            return value >= number
        case ">":
            return value > number
        case "=":
            return value == number
    raise ValueError(f"a goal begins with one of ≤ < ≥ > =, not {goal!r}")


@dataclass(frozen=True, slots=True)
class Pairs:
    """Two ways measured in turn; the ratio is the median of the pairs' own ratios."""

    a: tuple[float, ...]
    b: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        return tuple(a / b for a, b in zip(self.a, self.b, strict=True))

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def medians(self) -> tuple[float, float]:
        return statistics.median(self.a), statistics.median(self.b)


def alternate(a: Callable[[], float], b: Callable[[], float], repeats: int) -> Pairs:
    """Runs both ``repeats`` times, in pairs whose order swaps, so that a drift of the machine cancels."""
    of_a: list[float] = []
    of_b: list[float] = []
    for turn in range(repeats):
        if turn % 2 == 0:
            of_a.append(a())
            of_b.append(b())
        else:
            of_b.append(b())
            of_a.append(a())
    return Pairs(tuple(of_a), tuple(of_b))


@dataclass(slots=True)
class Record:
    """The figures of one benchmark and all that is needed to read them later."""

    name: str
    commit: Commit
    machine: Machine
    at: str
    quiet_before: bool
    repeats: int
    rows: list[Row] = field(default_factory=list)
    work: Work | None = None

    def row(
        self, name: str, samples: Sequence[float] | float, unit: str = "", goal: str = "", note: str = ""
    ) -> Row:
        self.rows.append(measured(name, samples, unit, goal, note))
        return self.rows[-1]

    def as_json(self) -> str:
        rows = [{**asdict(row), "spread": row.spread} for row in self.rows]
        return json.dumps({**asdict(self), "rows": rows}, indent=1, ensure_ascii=False) + "\n"


def arguments(description: str | None, repeats: int = 5) -> argparse.ArgumentParser:
    """The flags every benchmark has; a script adds its own."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures there")
    parser.add_argument("--repeats", type=int, default=repeats, metavar="N", help="default: %(default)s")
    parser.add_argument(
        "--patience",
        type=float,
        default=60.0,
        metavar="S",
        help="seconds to wait for a quiet machine, 0: none",
    )
    return parser


@contextmanager
def recording(name: str, args: argparse.Namespace) -> Iterator[Record]:
    """A Record to fill; at its end the table is printed and, with --json FILE, written."""
    was_quiet = wait_until_quiet(args.patience)
    machine, began = this_machine(), read()
    at = datetime.now(UTC).isoformat(timespec="seconds")
    record = Record(name, this_commit(), machine, at, was_quiet, args.repeats)
    yield record
    record.work = between(began, read(), machine.cores)
    print(report(record))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(record.as_json(), encoding="utf-8")


def report(record: Record) -> str:
    """The table, and below it what the machine did meanwhile."""
    state = f"commit {record.commit.id[:10] or 'none'}{' with changes' if record.commit.dirty else ''}"
    machine = record.machine
    memory = f"{machine.memory_bytes / 2**30:.0f} GiB"
    lines = [record.name, *table(record.rows)]
    lines.append(f"{machine.cpu}, {machine.cores} cores, {memory}, {machine.os}; {state}")
    lines += [str(record.work)] if record.work else []
    lines += [] if record.quiet_before else ["The machine was busy before this began."]
    return "\n".join(lines)


def table(rows: Sequence[Row]) -> list[str]:
    """Aligned columns; figures to the right, words to the left."""
    cells = [_cells(row) for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))] if cells else []
    return ["  ".join(_aligned(row, widths)).rstrip() for row in cells]


def _cells(row: Row) -> tuple[str, ...]:
    verdict = "" if row.met is None else "met" if row.met else "MISSED"
    low, high = row.spread
    spread = f"{number(low)}–{number(high)} of {len(row.samples)}" if len(row.samples) > 1 else ""
    return row.name, number(row.value), row.unit, spread, row.goal, verdict, row.note


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        yield cell.rjust(width) if index == 1 else cell.ljust(width)


def number(value: float) -> str:
    """Four digits that say something; counts in full."""
    if value.is_integer() and abs(value) < 1e9:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
