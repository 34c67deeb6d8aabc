"""``localchat devices``: the table of devices that predictions know, and which of them this machine is."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from localchat.commands.table import table
from localchat.errors import LocalchatError

if TYPE_CHECKING:
    from bandwidth_model.devices import Device

GIB = 2**30
COLUMNS = ("NAME", "KIND", "GB/S", "MEMORY GiB", "CONFIDENCE", "SOURCE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", nargs="*", metavar="WORD", help="only devices with all of these words")
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(args: argparse.Namespace) -> int:
    from bandwidth_model.devices import devices
    from bandwidth_model.recognise import this_device

    this = this_device()
    found = [device for device in devices() if _has(device, args.words)]
    if args.json:
        print(json.dumps([_fields(device, device is this) for device in found], indent=2))
        return 0
    if not found:
        raise LocalchatError(
            f"No device has the words {' '.join(args.words)!r}.", "`localchat devices` lists all."
        )
    print(*table([COLUMNS, *(_cells(device, device is this) for device in found)], right={2}), sep="\n")
    if this is None:
        print("\nThis machine is none of them. Measure it in 10 seconds: localchat probe")
    elif this in found:
        print("\n* this machine")
    return 0


def _has(device: Device, words: list[str]) -> bool:
    text = f"{device.name} {device.kind} {device.family}".lower()
    return all(word.lower() in text for word in words)


def _cells(device: Device, is_this: bool) -> tuple[str, ...]:
    return (
        f"{device.name}{' *' * is_this}",
        device.kind,
        f"{device.bandwidth_bytes_per_s / 1e9:,.1f}",
        ", ".join(f"{size / GIB:g}" for size in device.memory_bytes),
        device.confidence,
        device.source,
    )


def _fields(device: Device, is_this: bool) -> dict[str, object]:
    return {
        "name": device.name,
        "kind": device.kind,
        "family": device.family,
        "bandwidth_bytes_per_s": device.bandwidth_bytes_per_s,
        "memory_bytes": list(device.memory_bytes),
        "flops_per_s": device.flops_per_s,
        "cores": device.cores,
        "source": device.source,
        "confidence": device.confidence,
        "this_machine": is_this,
    }
