"""CPU seconds of `localchat --help` (goal: at most 0.15) and `localchat predict` on a file (at most 0.3)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.record import arguments, recording


def cpu_s(command: list[str]) -> float:
    before = os.times()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    args = arguments(__doc__, repeats=11).parse_args()
    localchat = str(Path(sys.executable).parent / "localchat")
    with recording("startup", args) as record:
        cpu_s([localchat, "--help"])
        record.row("--help", [cpu_s([localchat, "--help"]) for _ in range(args.repeats)], "s CPU", "≤ 0.15")
        weights = [localchat, "weights", "list"]
        record.row("weights list", [cpu_s(weights) for _ in range(args.repeats)], "s CPU")
        # on a device by name, so that it does not need this machine to have been measured
        predict = [localchat, "predict", "default", "--device", "RTX 4090"]
        record.row("predict", [cpu_s(predict) for _ in range(args.repeats)], "s CPU", "≤ 0.3")


if __name__ == "__main__":
    main()
