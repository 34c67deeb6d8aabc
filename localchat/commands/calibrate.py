"""``localchat calibrate``: measure the engine on this machine, so that predictions rest on it.

Owns the command line and the progress; what is measured is localchat.calibrating's.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from typing import TYPE_CHECKING

from localchat.errors import LocalchatError

if TYPE_CHECKING:
    from localchat.calibrating import Burst
    from localchat.speed import MachineSpeed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=int, nargs="+", metavar="N", help="thread counts (1 and all cores)")
    parser.add_argument("--json", action="store_true", help="print the fitted rates as JSON")


def run(args: argparse.Namespace) -> int:
    from bandwidth_model.machine import usable_cores
    from localchat.errors import UsageError
    from localchat.paths import find_paths
    from localchat.speed import MachineSpeed
    from router.errors import RouterError

    cores = usable_cores()
    counts = sorted(set(args.threads or (1, cores)))
    if not all(1 <= count <= cores for count in counts):
        raise UsageError(f"Threads are from 1 to the {cores} cores there are.")
    speed = MachineSpeed(find_paths())
    began = time.monotonic()
    try:
        asyncio.run(_calibrate(speed, counts))
    except RouterError as error:
        raise LocalchatError(f"The engine failed: {error}") from error
    except OSError as error:
        step = "Files of up to 300 MB are made there while measuring."
        raise LocalchatError(f"{error.filename or 'The disk'}: {error.strerror}.", step) from error
    print(f"Calibrated in {time.monotonic() - began:.0f} s.", file=sys.stderr)
    from localchat.commands.calibration import show, show_json

    show_json(speed) if args.json else show(speed)
    return 0


async def _calibrate(speed: MachineSpeed, counts: list[int]) -> None:
    from localchat.calibrating import measure_all, runs_of
    from localchat.compose import build_catalog
    from localchat.paths import find_paths

    paths = find_paths()
    default = build_catalog(paths).find("default")
    bursts = []
    async for burst in measure_all(default.path, counts, paths.cache):
        bursts.append(burst)
        _tell(burst, len(bursts))
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr)
    disturbed = sum(burst.disturbed for burst in bursts)
    if disturbed > len(bursts) / 2:
        raise LocalchatError(
            "Another program was using the processor most of the time; nothing was kept.",
            "Close it and run `localchat calibrate` again.",
        )
    if disturbed:
        what = f"{disturbed} of {len(bursts)} measurements"
        print(f"{what} were disturbed by another program and are left out.", file=sys.stderr)
    speed.learn(runs_of(bursts), "calibrate")


def _tell(burst: Burst, number: int) -> None:
    """On a screen one line that changes; in a file one for each model."""
    rate = "disturbed" if burst.disturbed else f"{1 / burst.token_s:.1f} tokens/s"
    threads = f"{burst.threads} thread{'s' if burst.threads > 1 else ''}"
    text = f"{number:4}  measuring {burst.subject} at depth {burst.depth:,}, {threads}: {rate}"
    if sys.stderr.isatty():
        print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)
    elif burst.prompt_tokens:
        print(text, file=sys.stderr, flush=True)
