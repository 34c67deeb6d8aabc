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
