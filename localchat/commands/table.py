"""Tables, figures, durations and sizes as plain text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from localchat.plain import plain


def table(rows: Iterable[Sequence[str]], right: Collection[int] = ()) -> Iterator[str]:
    """Lines with columns as wide as their widest cell; those in ``right`` end together."""
    shown = [[plain(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*shown, strict=True)]
    for row in shown:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(cells).rstrip()


def quantiles(
    unit: str, rows: Iterable[tuple[str, Sequence[float | None]]], scale: float = 1.0
) -> Iterator[str]:
    """Lines of mean, p50, p90 and p99, each times ``scale``; a dash where there is none."""
    yield f"{unit:<26}{'mean':>10}{'p50':>10}{'p90':>10}{'p99':>10}"
    for label, values in rows:
        cells = ("-" if value is None else f"{scale * value:.4g}" for value in values)
        yield f"{label:<26}" + "".join(f"{cell:>10}" for cell in cells)


def figures(value: float) -> str:
    """A number in three digits or so, as far as predictions go."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2g}"


def seconds(value: float) -> str:
    if value >= 120:
        return f"{value / 60:,.0f} min"
    if value >= 10:
        return f"{value:.0f} s"
    return f"{value:.1f} s" if value >= 0.95 else f"{value * 1000:.0f} ms"


def size(nbytes: float) -> str:
    return f"{nbytes / 1e9:,.1f} GB" if nbytes >= 1e9 else f"{nbytes / 1e6:,.1f} MB"
