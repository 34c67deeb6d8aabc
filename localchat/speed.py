"""What is known of how fast this machine is: the best of calibration, probe and device table.

Owns where the records lie and which one answers. Does not measure (the commands probe and
calibrate do) and does not predict (bandwidth_model.predict does).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from bandwidth_model.calibrate import own_run
from bandwidth_model.machine import on_battery, usable_cores
from bandwidth_model.probe import Reading, from_json, probe_of, to_json
from bandwidth_model.rates import (
    Rates,
    adjusted,
    calibrated_rates,
    datasheet_rates,
    probed_rates,
    typical_rates,
)
from bandwidth_model.recognise import this_device
from localchat.calibration import CalibrationFile, Record, Source, run_from
from localchat.engines.build_info import installed_build
from localchat.errors import LocalchatError
from localchat.paths import Paths

if TYPE_CHECKING:
    from bandwidth_model.calibrate import Run
    from bandwidth_model.shape import ModelShape

ENGINE = "llama_cpp"


class MachineSpeed:
    """The records of one user on this machine."""

    def __init__(self, paths: Paths, *, kv_type: str = "F16") -> None:
        self._probe = paths.cache / "probe.json"
        self._calibrations = CalibrationFile(paths.data / "calibration.json")
        self._kv_type = kv_type.upper()

    def rates(self, threads: int | None = None, shape: ModelShape | None = None) -> Rates:
        """For that many threads, by default all cores; of ``shape`` what its own runs showed counts."""
        count, record = threads or usable_cores(), self.record()
        rates = self._general_rates(count, record)
        own = record.of(shape.identity, count) if shape else []
        if not own:
            return rates
        return adjusted(rates, [own_run(run_from(each), rates, len(each.seconds)) for each in own])

    def _general_rates(self, count: int, record: Record) -> Rates:
        if calibration := record.nearest(count):
            return calibrated_rates(calibration)
        if readings := self.readings():
            return probed_rates(probe_of(readings), threads=count)
        if device := this_device():
            return datasheet_rates(device, threads=count)
        return typical_rates(count)

    @property
    def basis(self) -> str:
        """What to say where not even the table has this machine; "" otherwise."""
        if self.record().fitted or self.readings() or this_device():
            return ""
        return "typical processors, since the device table does not have this one"

    # -- the probe

    def readings(self) -> list[Reading] | None:
        """What the last probe read; None when there was none on this machine in this state."""
        try:
            kept = json.loads(self._probe.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return from_json(kept) if isinstance(kept, dict) else None

    def keep(self, readings: Iterable[Reading]) -> None:
        """Raises LocalchatError when the cache folder cannot be written."""
        try:
            self._probe.parent.mkdir(parents=True, exist_ok=True)
            part = self._probe.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps(to_json(readings), indent=1), encoding="utf-8")
            part.replace(self._probe)
        except OSError as error:
            raise LocalchatError(f"{self._probe} cannot be written: {error.strerror}.") from error

    # -- the calibration

    @property
    def key(self) -> str:
        """Engine and build, and what else a calibration holds for."""
        power = "battery" if on_battery() else "mains"
        return f"{ENGINE}|{installed_build()}|flash attention auto|cache {self._kv_type}|{power}"

    def record(self) -> Record:
        return self._calibrations.record(self.key)

    def learn(self, runs: Iterable[Run], source: Source) -> Record:
        """Take in measurements. Raises LocalchatError when the record cannot be written."""
        try:
            return self._calibrations.add(self.key, runs, source)
        except OSError as error:
            raise LocalchatError(f"The calibration cannot be written: {error.strerror}.") from error

    def forget(self) -> None:
        """Remove what was calibrated."""
        self._calibrations.forget()
