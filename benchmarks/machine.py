"""What a figure was measured on, and whether that machine had time for it.

Owns the facts beside every result: hardware, versions, commit, and the
processor time that others took meanwhile. Knows no figure.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from bandwidth_model.machine import busy_s

ROOT = Path(__file__).resolve().parent.parent
BUSY_SHARE = 0.05  # of all cores, taken by others: more than this and a figure is not to be trusted


@dataclass(frozen=True, slots=True)
class Machine:
    cpu: str
    cores: int
    memory_bytes: int
    os: str
    python: str
    llama_cpp_python: str


@dataclass(frozen=True, slots=True)
class Commit:
    id: str  # "" outside of a repository
    dirty: bool


@dataclass(frozen=True, slots=True)
class Reading:
    """Processor seconds used so far by everything, and by this process with its children."""

    at_s: float
    all_cpu_s: float
    own_cpu_s: float
    load: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Work:
    """What happened between two readings."""

    wall_s: float
    own_cpu_s: float
    others_cpu_s: float
    cores: int
    load_before: tuple[float, float, float]
    load_after: tuple[float, float, float]

    @property
    def others_share(self) -> float:
        """Of all cores' time, what others (and the host, when virtual) took."""
        return self.others_cpu_s / (self.wall_s * self.cores) if self.wall_s > 0 else 0.0

    @property
    def disturbed(self) -> bool:
        return self.others_share > BUSY_SHARE

    def __str__(self) -> str:
        others = f"others {self.others_share:.1%} of all cores"
        said = f"{self.wall_s:.1f} s, own CPU {self.own_cpu_s:.1f} s, {others}"
        return f"DISTURBED: {said}" if self.disturbed else said


def between(before: Reading, after: Reading, cores: int) -> Work:
    own = after.own_cpu_s - before.own_cpu_s
    others = max(0.0, after.all_cpu_s - before.all_cpu_s - own)
    return Work(after.at_s - before.at_s, own, others, cores, before.load, after.load)


def read() -> Reading:
    return Reading(time.monotonic(), busy_s(), _own_cpu_s(), os.getloadavg())


def _own_cpu_s() -> float:
    mine = psutil.Process()
    spent = mine.cpu_times()
    total = spent.user + spent.system + spent.children_user + spent.children_system
    for child in mine.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            times = child.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def quiet(watch_s: float = 1.0) -> bool:
    """Whether others leave this machine alone: watches for a moment, doing nothing."""
    before = read()
    time.sleep(watch_s)
    return not between(before, read(), psutil.cpu_count() or 1).disturbed


def wait_until_quiet(limit_s: float = 120.0) -> bool:
    """Whether it became quiet in time."""
    end = time.monotonic() + limit_s
    while not quiet():
        if time.monotonic() > end:
            return False
    return True


def this_machine() -> Machine:
    return Machine(
        cpu=_cpu_name(),
        cores=psutil.cpu_count() or 1,
        memory_bytes=psutil.virtual_memory().total,
        os=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        llama_cpp_python=_version("llama-cpp-python"),
    )


def this_commit() -> Commit:
    return Commit(_git("rev-parse", "--verify", "HEAD"), bool(_git("status", "--porcelain")))


def _git(*arguments: str) -> str:
    with contextlib.suppress(OSError):
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return ""


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def _cpu_name() -> str:
    if platform.system() == "Darwin":
        command = ["sysctl", "-n", "machdep.cpu.brand_string"]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
