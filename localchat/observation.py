"""What the machine did while a reply was decoded, read from the operating system's counters.

Owns the counters and their differences. Does not know what a token costs: explain.py
says what an observation means for one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from bandwidth_model.machine import busy_s
from router.forecaster import Observed

LEAST_S = 0.2  # the counters step by 10 ms: over less than this they say nothing
CLOCK_STEADY = 0.97  # clocks told by the system waver by this much at full speed


@dataclass(frozen=True, slots=True)
class Reading:
    """Counters at one moment: processor time of all cores in use here, this process, the engine."""

    at_s: float
    busy_s: float
    own_s: float
    engine_s: float
    clock_hz: float | None = None


def observed(readings: Sequence[Reading], cores: int, usual_clock_hz: float | None = None) -> Observed:
    """What lies between the first and the last of ``readings``."""
    first, last = readings[0], readings[-1]
    seconds = last.at_s - first.at_s
    own_s = last.own_s - first.own_s
    if seconds < LEAST_S:
        return Observed(seconds, cores, own_cpu_s=own_s)
    others_s = (last.busy_s - first.busy_s) - own_s - (last.engine_s - first.engine_s)
    return Observed(
        seconds=seconds,
        cores=cores,
        others_cores=min(float(cores), max(0.0, others_s / seconds)),
        clock=_clock(readings, usual_clock_hz),
        own_cpu_s=own_s,
    )


def _clock(readings: Sequence[Reading], usual_hz: float | None) -> float | None:
    seen = [reading.clock_hz for reading in readings if reading.clock_hz]
    if not seen or not usual_hz:
        return None
    share = sum(seen) / len(seen) / usual_hz
    return 1.0 if share >= CLOCK_STEADY else share


class Counters:
    """Reads the counters, and remembers the highest clock they told."""

    def __init__(self, engine_pid: Callable[[], int | None]) -> None:
        import psutil

        self._psutil: Any = psutil
        self._engine_pid = engine_pid
        self._has_clock = True
        self.usual_clock_hz: float | None = None

    def read(self) -> Reading:
        clock_hz = self._clock_hz()
        if clock_hz:
            self.usual_clock_hz = max(clock_hz, self.usual_clock_hz or 0.0)
        return Reading(time.monotonic(), busy_s(), time.process_time(), self._engine_s(), clock_hz)

    def _engine_s(self) -> float:
        pid = self._engine_pid()
        if pid is None:
            return 0.0
        times = self._psutil.Process(pid).cpu_times()
        return float(times.user + times.system)

    def _clock_hz(self) -> float | None:
        """Asked no more where the system has once not told."""
        if self._has_clock:
            try:
                told = self._psutil.cpu_freq()
                if told and told.current:
                    return float(told.current) * 1e6
            except (OSError, NotImplementedError):
                pass
            self._has_clock = False
        return None


class ReplyWatch:
    """Implements :class:`router.forecaster.Watch` over :class:`Counters`."""

    def __init__(self, counters: Counters, cores: int) -> None:
        self._counters, self._cores = counters, cores
        self._readings: list[Reading] = []

    def begin(self) -> None:
        self._readings = []
        self._read()

    def observed(self) -> Observed:
        if not self._readings:
            return Observed(cores=self._cores)
        self._read()
        return observed(self._readings, self._cores, self._counters.usual_clock_hz)

    def _read(self) -> None:
        import psutil

        with suppress(psutil.Error, OSError):  # the engine has gone: what was read before stands
            self._readings.append(self._counters.read())
