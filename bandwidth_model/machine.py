"""What this machine offers to a program now: cores and memory.

Asks the operating system; knows nothing of models.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import suppress
from pathlib import Path

TICK_S = 0.01  # of the system's counters of processor time; see sysconf(3), _SC_CLK_TCK


def usable_cores() -> int:
    """Cores this process may use: affinity and the container's quota respected."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        return max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return cores


def thread_counts(cores: int) -> tuple[int, ...]:
    """Counts of threads worth trying on ``cores`` free cores: all up to 4, then by half steps."""
    counts = {c for c in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64) if c < cores}
    return tuple(sorted(counts | {max(1, cores)}))


class IdleCores:
    """How much of the machine nobody used, between one call and the next."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None  # idle core-seconds, at

    def __call__(self) -> float:
        """Cores' worth of idle time since the last call; 0.0 at the first."""
        import psutil

        idle, now = float(psutil.cpu_times().idle), time.monotonic()
        last, self._last = self._last, (idle, now)
        return (idle - last[0]) / max(now - last[1], 1e-3) if last else 0.0


def busy_s() -> float:
    """Processor seconds that anybody used so far, on the cores this process may use."""
    import psutil

    per_core = psutil.cpu_times(percpu=True)
    if hasattr(os, "sched_getaffinity"):
        per_core = [per_core[core] for core in os.sched_getaffinity(0) if core < len(per_core)]
    # On Linux a guest's time is counted as the user's already.
    counted = [f for f in per_core[0]._fields if f not in ("idle", "iowait") and not f.startswith("guest")]
    return float(sum(getattr(core, name) for core in per_core for name in counted))


class OthersTime:
    """How much processor time other programs took, and the host of a virtual machine."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None  # others' core-seconds, at

    def __call__(self) -> float:
        """Cores' worth that others used since the last call; 0.0 at the first."""
        others, now = self._seconds(), time.monotonic()
        last, self._last = self._last, (others, now)
        if last is None:
            return 0.0
        # Counters step in ticks: less than two of them may be rounding.
        return max(0.0, others - last[0] - 2 * TICK_S) / max(now - last[1], 1e-3)

    def _seconds(self) -> float:
        import psutil

        mine = psutil.Process()
        spent = mine.cpu_times()
        own = spent.user + spent.system + spent.children_user + spent.children_system
        for child in mine.children(recursive=True):
            with suppress(psutil.Error):
                spent = child.cpu_times()
                own += spent.user + spent.system + spent.children_user + spent.children_system
        return busy_s() - own


def available_bytes() -> int:
    """Memory a new program can have without swapping, the container's limit respected."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        return min(free, max(0, limit - used))
    except (OSError, ValueError):
        return free


def last_level_cache_bytes() -> int:
    """Of the largest cache a core reads through; 0 where the system does not tell."""
    sizes = [_size(path) for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    return max(sizes, default=0) or _sysctl_bytes("hw.l3cachesize", "hw.perflevel0.l2cachesize")


def _size(path: Path) -> int:
    try:
        text = path.read_text().strip()
        return int(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1:], 1)
    except (OSError, ValueError):
        return 0


def _sysctl_bytes(*names: str) -> int:
    for name in names:
        with suppress(OSError, subprocess.SubprocessError, ValueError):
            told = subprocess.run(["sysctl", "-n", name], capture_output=True, timeout=2, check=True)
            return int(told.stdout)
    return 0


def on_battery() -> bool:
    """Whether the machine runs from a battery now: many are slower then."""
    import psutil

    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return battery is not None and battery.power_plugged is False
