"""What is known of how fast this machine is: the best of calibration, probe and device table.

Owns where the records lie and which one answers. Does not measure (commands probe and
calibrate do) and does not predict (bandwidth_model.predict does).
"""

from __future__ import annotations

from bandwidth_model.machine import usable_cores
from bandwidth_model.rates import Rates, datasheet_rates
from bandwidth_model.recognise import this_device
from localchat.errors import LocalchatError
from localchat.paths import Paths


class SpeedUnknown(LocalchatError):
    """Nobody measured this machine, and the device table does not have it."""


class MachineSpeed:
    """The records of one user on this machine."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def rates(self, threads: int | None = None) -> Rates:
        """For that many threads, by default all cores. Raises SpeedUnknown, naming what would help."""
        device = this_device()
        if device is None:
            raise SpeedUnknown(
                "How fast this machine is, is not known: the device table does not have its processor.",
                "Measure it in 10 seconds: localchat probe",
            )
        return datasheet_rates(device, threads=threads or usable_cores())
