"""What a person gives to predict and fit on the command line: hardware, numbers, cache types.

Owns these flags and their one-line refusals, which are UsageErrors rather than
argparse's two paragraphs.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from localchat.errors import UsageError

if TYPE_CHECKING:
    from localchat.hardware import Hardware
    from localchat.paths import Paths

MAX_GB = 1e6  # of memory and of bandwidth


def add_hardware_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device",
        action="append",
        default=[],
        metavar="D",
        help="a device from `localchat devices`, or `this` for this machine (default); "
        "given several times, they share the layers in that order",
    )
    parser.add_argument(
        "--memory",
        action="append",
        default=[],
        metavar="GB",
        help="its memory in GiB, once for each --device",
    )
    parser.add_argument(
        "--bandwidth", metavar="GB/S", help="instead of --device: any device of that memory bandwidth"
    )


def chosen_hardware(args: argparse.Namespace, paths: Paths) -> tuple[Hardware, ...]:
    from localchat.hardware import choose_hardware

    memory = [amount(text, "--memory") for text in args.memory]
    bandwidth = None if args.bandwidth is None else amount(args.bandwidth, "--bandwidth")
    return choose_hardware(args.device, memory, bandwidth, paths)


def kv_type(name: str | None) -> str | None:
    """The type of a cache as the model package spells it; None if none was given."""
    from bandwidth_model.attention import kv_element_bytes
    from bandwidth_model.errors import UnknownKvType

    if name is None:
        return None
    try:
        kv_element_bytes(name)
    except UnknownKvType as error:
        raise UsageError(f"--kv-type: {error}") from error
    return name.upper()


def whole(text: str, flag: str, lowest: int, highest: int) -> int:
    """A whole number within limits."""
    digits = text.replace(",", "").replace("_", "")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise UsageError(f"{flag} {text!r} is no whole number.", f"Give one from {lowest:,} to {highest:,}.")
    if not lowest <= int(digits) <= highest:
        raise UsageError(f"{flag} {text} is not between {lowest:,} and {highest:,}.")
    return int(digits)


def wholes(texts: Sequence[str] | None, flag: str, lowest: int, highest: int) -> tuple[int, ...] | None:
    """Several of them; None if none were given."""
    return None if texts is None else tuple(whole(text, flag, lowest, highest) for text in texts)


def amount(text: str, flag: str) -> float:
    """A positive number."""
    try:
        value = float(text)
    except ValueError:
        raise UsageError(f"{flag} {text!r} is no number.", f"For example: {flag} 24") from None
    if not 0 < value <= MAX_GB:
        raise UsageError(f"{flag} {text} is not between 0 and {MAX_GB:,.0f}.")
    return value
