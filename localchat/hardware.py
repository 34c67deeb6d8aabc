"""Where a model would run: this machine or named devices, how fast each is and what memory it has.

Owns what a person may say of it (device, memory, bandwidth, threads) and the errors for
what cannot be. Rates come from MachineSpeed and bandwidth_model; predicts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bandwidth_model.devices import GIB, Device, find_device
from bandwidth_model.errors import UnknownDevice
from bandwidth_model.machine import available_bytes, usable_cores
from bandwidth_model.rates import THUMB_SHARE, Rates, datasheet_rates, thumb_rates
from bandwidth_model.room import assumed_memory_bytes, kept_free, room_bytes
from bandwidth_model.shape import ModelShape
from localchat.errors import UsageError
from localchat.paths import Paths
from localchat.speed import MachineSpeed

THIS = "this"
THIS_MACHINE = "this machine"
LIST_DEVICES = "`localchat devices` lists all."


@dataclass(frozen=True, slots=True)
class Hardware:
    """``rates`` of a model with a number of threads, None: all cores.

    ``note`` says what was assumed of its memory, ``basis`` on what its rates rest where
    their tier does not say it.
    """

    name: str
    available_bytes: int
    rates: Callable[[int | None, ModelShape], Rates]
    note: str
    cores: int | None = None
    is_this_machine: bool = False
    basis: str = ""


def choose_hardware(
    devices: Sequence[str], memory_gb: Sequence[float], bandwidth_gb_per_s: float | None, paths: Paths
) -> tuple[Hardware, ...]:
    """One for each of ``devices``, with the memory of the same position; this machine if there are none.

    Raises UsageError for names that are unknown and combinations that mean nothing.
    """
    if bandwidth_gb_per_s is not None:
        return (_by_bandwidth(devices, memory_gb, bandwidth_gb_per_s),)
    names = list(devices) or [THIS]
    if len(memory_gb) > len(names):
        raise UsageError(
            f"--memory is given {len(memory_gb)} times for {len(names)} device{'s' * (len(names) > 1)}.",
            "Give it at most once for each --device, in the same order.",
        )
    sizes = [round(gb * GIB) for gb in memory_gb]
    padded = [*sizes, *[None] * (len(names) - len(sizes))]
    return tuple(
        _this(size, paths) if name.strip().lower() in (THIS, THIS_MACHINE) else _named(name, size)
        for name, size in zip(names, padded, strict=True)
    )


def check_threads(wanted: Sequence[int | None], hardware: Sequence[Hardware]) -> None:
    """Raise UsageError where no device has so many cores."""
    threads = max((each for each in wanted if each), default=0)
    most = max(hardware, key=lambda each: each.cores or 0)
    if most.cores and threads > most.cores:
        raise UsageError(f"{threads} threads are more than the {most.cores} cores of {most.name}.")


def _this(memory_bytes: int | None, paths: Paths) -> Hardware:
    speed = MachineSpeed(paths)

    def rates(threads: int | None, shape: ModelShape) -> Rates:
        return speed.rates(threads, shape)

    available = kept_free(memory_bytes) if memory_bytes else available_bytes()
    note = _kept(memory_bytes) if memory_bytes else "what is available now"
    return Hardware(
        THIS_MACHINE, available, rates, note, usable_cores(), is_this_machine=True, basis=speed.basis
    )


def _named(name: str, memory_bytes: int | None) -> Hardware:
    try:
        device = find_device(name)
    except UnknownDevice as error:
        raise UsageError(str(error), LIST_DEVICES) from error
    size = memory_bytes or assumed_memory_bytes(device)
    room = room_bytes(device, size)
    note = _kept(memory_bytes) if memory_bytes else _assumed(device)

    def rates(threads: int | None, shape: ModelShape) -> Rates:
        return datasheet_rates(device, threads=threads)

    return Hardware(device.name, room, rates, note, device.cores if device.silicon == "cpu" else None)


def _by_bandwidth(devices: Sequence[str], memory_gb: Sequence[float], gb_per_s: float) -> Hardware:
    if devices:
        raise UsageError("--bandwidth describes a device of its own.", "Leave --device out, or --bandwidth.")
    if len(memory_gb) != 1:
        raise UsageError("--bandwidth says nothing of memory.", "Give that too: --memory GB")
    size = round(memory_gb[0] * GIB)
    found = thumb_rates(gb_per_s * 1e9, name=f"a device of {gb_per_s:g} GB/s")
    return Hardware(
        found.device,
        kept_free(size),
        lambda threads, shape: found,
        _kept(size),
        basis=f"the rule of thumb, {THUMB_SHARE:.2f} x bandwidth / bytes",
    )


def _assumed(device: Device) -> str:
    sizes = [_gib(size) for size in device.memory_bytes]
    if len(sizes) > 1:
        return f"assuming {sizes[0]}, the smallest of {', '.join(sizes)} (--memory says which)"
    if device.silicon == "cpu" and device.kind != "board":
        return f"assuming {sizes[0]}, the most it takes (--memory says how much)"
    return _kept(device.memory_bytes[0])


def _kept(size: int) -> str:
    return f"{_gib(size)} less what stays free for others"


def _gib(size: int) -> str:
    return f"{size / GIB:g} GiB"
