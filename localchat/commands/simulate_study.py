"""``localchat simulate study NAME``: one study's table, its plot, and published figures beside.

Owns flags and what is shown; what is measured is router.simcloud.studies'. Ctrl+C shows what
was done until then.
"""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.flags import INTERRUPTED

if TYPE_CHECKING:
    from router.simcloud.studies.registry import Study
    from router.simcloud.studies.table import Table

WIDTH = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="without it, the studies are listed")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the made-up requests, default: 0"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="also draw it (.png or .svg)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    from localchat.plotting import check_plot_file
    from router.simcloud.studies.registry import all_studies, find_study

    if args.name is None:
        _list(list(all_studies().values()), args.json)
        return 0
    study = find_study(args.name)
    if args.plot:
        check_plot_file(args.plot)
    table, interrupted = _measure(study, args.seed)
    if table is not None:
        _show(study, table, interrupted, args)
    if interrupted:
        kept = "this is what was done until then" if table else "nothing was done yet"
        print(f"localchat: Interrupted; {kept}.", file=sys.stderr)
        return INTERRUPTED
    return 0


def _list(studies: list[Study], as_json: bool) -> None:
    if as_json:
        print(json.dumps([{"name": study.name, "summary": study.summary} for study in studies], indent=1))
        return
    from localchat.commands.table import table

    for line in table([(study.name, study.summary) for study in studies]):
        print(line)
    print("\n`localchat simulate study NAME` runs one.")


def _measure(study: Study, seed: int) -> tuple[Table | None, bool]:
    """The last table that came, and whether somebody interrupted."""
    from localchat.commands.progress_bar import progress_bar

    table: Table | None = None
    try:
        with progress_bar(study.name) as progress:
            for partial in study.tables(seed, progress):
                table = partial
    except KeyboardInterrupt:
        return table, True
    return table, False


def _show(study: Study, table: Table, interrupted: bool, args: argparse.Namespace) -> None:
    if args.json:
        found = {"name": study.name, "seed": args.seed, "interrupted": interrupted, **table.as_dict()}
        print(json.dumps(found, indent=1))
    else:
        for line in text_of(table):
            print(line)
    if args.plot:
        from localchat.plotting import Series, save_lines

        lines = [Series(each.label, each.x, each.y) for each in table.series]
        save_lines(args.plot, lines, table.x_label, table.y_label, table.title)
        print(f"Drawn: {args.plot}", file=sys.stderr)


def text_of(table: Table) -> Iterator[str]:
    from localchat.commands.text_plot import text_plot

    yield from (table.title, "")
    yield from _rows(table)
    plot = list(text_plot(table.series, table.x_label, table.y_label))
    if plot:
        yield ""
        yield from plot
    for heading, texts in (("Published", table.published), ("Notes", table.notes)):
        if texts:
            yield from ("", f"{heading}:")
            for text in texts:
                yield from textwrap.wrap(text, WIDTH, initial_indent="  - ", subsequent_indent="    ")


def _rows(of: Table) -> Iterator[str]:
    from localchat.commands.table import table

    headings = list(dict.fromkeys(key for row in of.rows for key in row))
    cells = [[_cell(row.get(key, "")) for key in headings] for row in of.rows]
    numbers = {
        column
        for column, key in enumerate(headings)
        if any(not isinstance(row.get(key, ""), str) for row in of.rows)
    }
    return table([headings, *cells], right=numbers)


def _cell(value: float | str) -> str:
    if isinstance(value, str):
        return value
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.4g}" if abs(value) >= 100 else f"{value:.3g}"
