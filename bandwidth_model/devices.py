"""Devices by name: bandwidth, memory, arithmetic, and who says so.

Owns the table devices.toml and the finding of a device by what people or operating
systems call it. Does not know models, and predicts nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Literal

from bandwidth_model.errors import UnknownDevice

Kind = Literal["phone", "laptop", "desktop", "gpu", "server", "board"]
Silicon = Literal["cpu", "gpu", "apple", "phone"]

GIB = 2**30
MAX_HINTS = 8


@dataclass(frozen=True, slots=True)
class Device:
    """``bandwidth_bytes_per_s`` and the rates are peaks of the data sheet; None where nobody says.

    ``flops_per_s`` is FP32 outside of matrix units, ``half_flops_per_s`` dense FP16 or
    BF16 on matrix units. ``memory_bytes`` are the sizes it is sold with.
    """

    name: str
    kind: Kind
    silicon: Silicon
    family: str
    bandwidth_bytes_per_s: float
    memory_bytes: tuple[int, ...]
    source: str
    confidence: str
    flops_per_s: float | None = None
    half_flops_per_s: float | None = None
    cores: int | None = None
    known_as: str = ""

    @property
    def core_flops_per_s(self) -> float | None:
        """FP32 rate of one core, small and large ones averaged; of processors only."""
        if self.silicon != "cpu" or not self.cores or not self.flops_per_s:
            return None
        return self.flops_per_s / self.cores


@cache
def devices() -> tuple[Device, ...]:
    """The whole table, in its order."""
    table = tomllib.loads(files("bandwidth_model").joinpath("devices.toml").read_text(encoding="utf-8"))
    return tuple(device for group in table["group"] for device in _of_group(group))


def find_device(name: str) -> Device:
    """The device a person means, or UnknownDevice that says what there is instead."""
    words = _words(name).split()
    for device in devices():
        if _words(device.name).split() == words:
            return device
    found = candidates(name) or [
        device for device in devices() if words and set(words) <= set(_words(device.name).split())
    ]
    if len(found) == 1:
        return found[0]
    if found:
        several = ", ".join(device.name for device in found[:MAX_HINTS])
        raise UnknownDevice(f"{name!r} may be any of: {several}.")
    raise UnknownDevice(f"No device is called {name!r}.{_hint(name)}")


def _hint(name: str) -> str:
    names = {_words(device.name): device.name for device in devices()}
    close = get_close_matches(_words(name), names, n=3, cutoff=0.5)
    return f" Did you mean {' or '.join(names[each] for each in close)}?" if close else ""


def recognise(names: Iterable[str], cores: int | None = None) -> Device | None:
    """The device that an operating system describes by ``names``; None where that is not certain."""
    for name in names:
        found = candidates(name, cores)
        if len(found) == 1:
            return found[0]
    return None


def candidates(text: str, cores: int | None = None) -> list[Device]:
    """Devices whose name, or what they are known as, is in ``text``; the longest match decides.

    Variants of a chip that have the same bandwidth count as one, the last of them.
    """
    lengths = [(_match_length(device, text), device) for device in devices()]
    longest = max(length for length, _ in lengths)
    found = [device for length, device in lengths if length == longest] if longest else []
    found = _narrowed(found, lambda device: cores in (None, device.cores))
    if memory := re.search(r"(\d+) ?GB\b", text, re.IGNORECASE):
        found = _narrowed(found, lambda device: int(memory[1]) * GIB in device.memory_bytes)
    same = len({(device.bandwidth_bytes_per_s, device.silicon) for device in found}) == 1
    return found[-1:] if same else found


def _match_length(device: Device, text: str) -> int:
    """Characters of ``text`` that tell the device, 0 if none do."""
    told = re.search(device.known_as, text, re.IGNORECASE) if device.known_as else None
    words = f" {_words(text)} "
    named = max(
        (len(name) for name in (_words(device.name), _chip(device)) if f" {name} " in words), default=0
    )
    return max(named, len(told[0]) if told else 0)


def _chip(device: Device) -> str:
    """The name without the number of its GPU cores: operating systems do not tell that."""
    return re.sub(r" \d+c$", "", _words(device.name))


def _narrowed(found: list[Device], fits: Callable[[Device], bool]) -> list[Device]:
    return [device for device in found if fits(device)] or found


_MAKERS = re.compile(r"\b(nvidia|geforce|amd|radeon|intel|apple|core|gpu|graphics|processor)\b|\((r|tm)\)")
_GPU_CORES = re.compile(r"\b(\d+)[- ](core gpu|gpu core)")


@cache
def _words(name: str) -> str:
    """Lower case, without makers and punctuation; "32-Core GPU" becomes "32c"."""
    name = _MAKERS.sub(" ", _GPU_CORES.sub(r"\1c", name.lower()))
    return " ".join(re.findall(r"[\w+.]+", name))


def _of_group(group: dict[str, object]) -> Iterator[Device]:
    columns, rows = group["columns"], group["devices"]
    assert isinstance(columns, list)
    assert isinstance(rows, list)
    for row in rows:
        yield _device({**group, **dict(zip(columns, row, strict=True))})


def _device(row: dict[str, object]) -> Device:
    memory = row["memory_gib"]
    assert isinstance(memory, list)
    return Device(
        name=str(row["name"]),
        kind=row["kind"],  # type: ignore[arg-type]  # the table's own test checks these two
        silicon=row["silicon"],  # type: ignore[arg-type]  # made from words
        family=str(row["family"]),
        bandwidth_bytes_per_s=_scaled(row, "gb_per_s", 1e9) or 0.0,
        memory_bytes=tuple(int(each * GIB) for each in memory),
        source=str(row["source"]),
        confidence=str(row["confidence"]),
        flops_per_s=_scaled(row, "fp32_tflops", 1e12),
        half_flops_per_s=_scaled(row, "half_tflops", 1e12),
        cores=int(str(row["cores"])) if "cores" in row else None,
        known_as=str(row.get("known_as", "")),
    )


def _scaled(row: dict[str, object], key: str, unit: float) -> float | None:
    value = row.get(key)
    return float(value) * unit if isinstance(value, int | float) else None
