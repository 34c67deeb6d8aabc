"""What this machine offers to a program now: cores and memory.

Asks the operating system; knows nothing of models.
"""

from __future__ import annotations

import os
import time
from pathlib import Path


def usable_cores() -> int:
    """Cores this process may use: affinity and the container's quota respected."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        return max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return cores


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
