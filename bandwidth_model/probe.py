"""What this machine reads and computes in a second: runs the measurement, judges it, keeps it.

Owns the readings, when they are not to be trusted, and the fingerprint of the machine
they hold for. The loops themselves are probing.py's, in a process of its own.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

from bandwidth_model.errors import ProbeFailed
from bandwidth_model.machine import last_level_cache_bytes, on_battery, usable_cores
from bandwidth_model.measured import CacheSpeed, Probe
from bandwidth_model.recognise import machine_names

What = Literal["memory", "cache", "multiply"]

BUSY_SHARE = 0.9  # processor time below this share of wall time: another program had the core
STEADY = 1.25  # the best pass this much better than the median one: something came and went
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Reading:
    """Passes with ``threads``: ``best`` and ``median`` in bytes (of multiplying: operations) a second.

    ``cpu_share`` is the processor time of the best pass over its wall time, 1.0 when
    nobody else ran. ``array_bytes``: of a cache, how much was read.
    """

    of: What
    threads: int
    best: float
    median: float
    cpu_share: float
    array_bytes: int = 0

    @property
    def disturbed(self) -> bool:
        return self.cpu_share < BUSY_SHARE or self.best > STEADY * self.median


def run_probe() -> Iterator[Reading]:
    """Measure now, for some seconds, yielding each reading as it is known. Raises ProbeFailed."""
    command = [sys.executable, "-P", "-m", "bandwidth_model.probing"]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stdout
            assert child.stderr
            for line in child.stdout:
                yield Reading(**json.loads(line))
            if child.wait(PATIENCE_S):
                last = child.stderr.read().strip().splitlines()[-1:]
                raise ProbeFailed(f"measuring ended early: {last[0] if last else child.returncode}")
        finally:
            child.kill()


def probe_of(readings: Iterable[Reading]) -> Probe:
    """What the readings say. Raises ProbeFailed when one kind is missing."""
    every = list(readings)
    memory = {each.threads: each.best for each in every if each.of == "memory"}
    flops = [each.best for each in every if each.of == "multiply"]
    if not memory or not flops:
        raise ProbeFailed("measuring gave no reading of memory and arithmetic")
    cache = next((each for each in every if each.of == "cache"), None)
    return Probe(
        read_bytes_per_s=memory,
        flops_per_s=max(flops),
        cache=CacheSpeed(cache.array_bytes, cache.best) if cache else None,
    )


def fingerprint() -> str:
    """Of what a probe depends on; another text means measuring again."""
    name = next(islice(machine_names(), 1), platform.machine())
    power = "battery" if on_battery() else "mains"
    return f"{name}|{usable_cores()} cores|{last_level_cache_bytes()} B cache|{power}"


def to_json(readings: Iterable[Reading]) -> dict[str, Any]:
    return {"fingerprint": fingerprint(), "readings": [asdict(each) for each in readings]}


def from_json(kept: Mapping[str, Any]) -> list[Reading] | None:
    """The kept readings; None where they are of another machine or state, or unreadable."""
    try:
        same = kept["fingerprint"] == fingerprint()
        return [Reading(**each) for each in kept["readings"]] if same else None
    except (KeyError, TypeError):
        return None
