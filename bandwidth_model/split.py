"""Does a model fit into several devices together, and how many of its layers go to each.

Pure. Fills the devices in the order given, as a person would who lists the fastest first.
One device is memory.py's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bandwidth_model.memory import (
    CACHE_STEP,
    SMALLEST_CONTEXT,
    Needs,
    Verdict,
    needs,
    placed_layers,
    portion,
    verdict,
)
from bandwidth_model.shape import ModelShape

BOUNDLESS_BYTES = 2**62  # the last device takes what is left of a model that fits nowhere
NOTHING = Needs(0, 0, 0)


@dataclass(frozen=True, slots=True)
class Split:
    """``layers`` and ``needs`` for each device; those without layers need nothing."""

    layers: tuple[int, ...]
    needs: tuple[Needs, ...]
    verdict: Verdict


def split_verdict(
    shape: ModelShape, rooms: Sequence[int], *, context: int | None = None, kv_type: str | None = None
) -> Split:
    """Where the layers go with ``context``, or with the largest one that fits."""
    if len(rooms) == 1 or not shape.layers:  # one without layers cannot be split
        first = verdict(shape, rooms[0], context=context, kv_type=kv_type)
        others = len(rooms) - 1
        return Split((len(shape.layers), *[0] * others), (first.needs, *[NOTHING] * others), first)
    whole = verdict(shape, sum(rooms), context=context, kv_type=kv_type)
    wanted = whole.context
    largest = _largest_context(shape, rooms, wanted, kv_type)
    layers = _placed(shape, rooms, largest or wanted, kv_type)
    parts = _needs_of(shape, layers, wanted, kv_type)
    return Split(layers, parts, _of_several(whole, rooms, parts, layers, largest))


def _placed(shape: ModelShape, rooms: Sequence[int], context: int, kv_type: str | None) -> tuple[int, ...]:
    placed = placed_layers(shape, rooms, context=context, kv_type=kv_type) or placed_layers(
        shape, [*rooms[:-1], BOUNDLESS_BYTES], context=context, kv_type=kv_type
    )
    return placed or (*[0] * (len(rooms) - 1), len(shape.layers))


def _largest_context(shape: ModelShape, rooms: Sequence[int], wanted: int, kv_type: str | None) -> int | None:
    def fits(context: int) -> bool:
        return placed_layers(shape, rooms, context=context, kv_type=kv_type) is not None

    if fits(wanted):
        return wanted
    low, high = min(SMALLEST_CONTEXT, wanted) // CACHE_STEP, wanted // CACHE_STEP
    if wanted <= SMALLEST_CONTEXT or not fits(low * CACHE_STEP):
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle * CACHE_STEP) else (low, middle - 1)
    return low * CACHE_STEP


def _needs_of(
    shape: ModelShape, layers: Sequence[int], context: int, kv_type: str | None
) -> tuple[Needs, ...]:
    parts, start = [], 0
    for count in layers:
        part = needs(portion(shape, start, count), context, kv_type=kv_type) if count else NOTHING
        parts.append(part)
        start += count
    return tuple(parts)


def _of_several(
    whole: Verdict, rooms: Sequence[int], parts: Sequence[Needs], layers: Sequence[int], largest: int | None
) -> Verdict:
    total = Needs(
        sum(part.weights_bytes for part in parts),
        sum(part.cache_bytes for part in parts),
        sum(part.buffer_bytes for part in parts),
    )
    counts = " + ".join(str(count) for count in layers)
    if largest == whole.context:
        return replace(
            whole,
            status="fits",
            needs=total,
            largest_context=largest,
            reason=f"{counts} layers, each within its device's memory",
            advice="",
        )
    reason = f"{counts} layers, and {whole.context:,} tokens of context do not fit beside them"
    if largest is None:
        reason = f"{len(parts)} devices with {sum(rooms) / 1e9:.1f} GB together do not hold its layers"
    return replace(
        whole,
        status="does not fit" if largest is None else "fits with a smaller context",
        needs=total,
        largest_context=largest,
        reason=reason,
        advice=f"set the context to {largest:,} tokens" if largest else whole.advice or "add a device",
    )
