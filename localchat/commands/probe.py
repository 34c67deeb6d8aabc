"""``localchat probe``: how fast this machine reads memory and computes, measured in seconds.

Owns the command line, its table and JSON; bandwidth_model.probe measures.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from bandwidth_model.errors import ProbeFailed
from bandwidth_model.probe import Reading, fingerprint, run_probe
from localchat.errors import LocalchatError
from localchat.paths import find_paths
from localchat.speed import MachineSpeed

WHAT = {"memory": "memory, read", "cache": "cache, read", "multiply": "FP32 products"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cached", action="store_true", help="show what the last probe found, if it holds")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    """Measure, keep and show; a busy machine is measured, shown as such and not kept."""
    speed = MachineSpeed(find_paths())
    readings = speed.readings() if args.cached else None
    if readings is None:
        readings = _measured()
        if not _disturbed(readings):
            speed.keep(readings)
    _show_json(readings) if args.json else _show(readings)
    return 0


def _measured() -> list[Reading]:
    readings = []
    try:
        for reading in run_probe():
            readings.append(reading)
            if sys.stderr.isatty():
                print(f"\r{_line(reading)}\x1b[K", end="", file=sys.stderr, flush=True)
    except ProbeFailed as error:
        raise LocalchatError(f"{error}.", "Try again.") from error
    finally:
        if sys.stderr.isatty():
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    return readings


def _disturbed(readings: Sequence[Reading]) -> list[Reading]:
    return [reading for reading in readings if reading.disturbed]


def _show_json(readings: Sequence[Reading]) -> None:
    rows = [{**asdict(reading), "disturbed": reading.disturbed} for reading in readings]
    print(json.dumps({"fingerprint": fingerprint(), "readings": rows}, indent=1))


def _show(readings: Sequence[Reading]) -> None:
    for reading in readings:
        print(_line(reading))
    memory = [reading for reading in readings if reading.of == "memory"]
    knee = min(memory, key=lambda each: (each.best < 0.97 * max(r.best for r in memory), each.threads))
    if knee.threads < memory[-1].threads:
        print(f"More than {knee.threads} thread{'s' if knee.threads > 1 else ''} read memory no faster.")
    print()
    if _disturbed(readings):
        print("Another program was running: close it and measure again. Nothing was kept.")
    else:
        print("Kept. `localchat predict MODEL` uses it; `localchat calibrate` makes it more certain.")


def _line(reading: Reading) -> str:
    unit = "GFLOP/s" if reading.of == "multiply" else "GB/s"
    plural = "s" if reading.threads > 1 else " "
    busy = f"   disturbed: {reading.cpu_share:.0%} of a core's time" if reading.disturbed else ""
    return (
        f"{WHAT[reading.of]:14} {reading.threads:3} thread{plural}  {reading.best / 1e9:8.1f} {unit}"
        f"   (median {reading.median / 1e9:.1f}){busy}"
    )
