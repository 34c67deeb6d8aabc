"""What the operating system calls this machine, and the device that is.

Owns the places where names stand; devices.py knows what they mean. Only reads.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from bandwidth_model.devices import Device, recognise

BOARD_MODEL = Path("/proc/device-tree/model")  # boards with a device tree, such as Raspberry Pi
CPU_INFO = Path("/proc/cpuinfo")
MAX_CPU_INFO_BYTES = 2**20


def this_device() -> Device | None:
    """This machine in the table; None where nobody tells or the table does not have it."""
    return recognise(machine_names(), os.cpu_count())


def machine_names() -> Iterator[str]:
    """Names of the machine or its processor, the most telling first."""
    if platform.system() == "Darwin":
        yield from _first_line("sysctl", "-n", "machdep.cpu.brand_string")
    elif hasattr(os, "sched_getaffinity"):
        yield from _board()
        yield from _android()
        yield from _cpu_models()
    yield from filter(None, [platform.processor()])


def _board() -> Iterator[str]:
    with suppress(OSError):
        yield BOARD_MODEL.read_text(encoding="utf-8", errors="replace").rstrip("\0\n")


def _android() -> Iterator[str]:
    if "ANDROID_ROOT" in os.environ:
        yield from _first_line("getprop", "ro.soc.model")


def _cpu_models() -> Iterator[str]:
    with suppress(OSError), CPU_INFO.open(encoding="utf-8", errors="replace") as file:
        for line in file.read(MAX_CPU_INFO_BYTES).splitlines():
            key, _, value = line.partition(":")
            if key.strip() in ("model name", "Hardware", "Model"):
                yield value.strip()
                return


def _first_line(*command: str) -> Iterator[str]:
    with suppress(OSError, subprocess.SubprocessError):
        run = subprocess.run(command, capture_output=True, text=True, timeout=2, check=True)
        yield run.stdout.partition("\n")[0].strip()
