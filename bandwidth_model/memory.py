"""Does a model fit: weights, cache and buffers against the memory there is, and what to change if not.

Pure. Owns the arithmetic of what llama.cpp allocates. Does not ask the machine
(machine.py does) and predicts no speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Literal

from bandwidth_model.attention import Attention, kv_element_bytes
from bandwidth_model.shape import NO_WEIGHTS, ModelShape, weight_bytes

Status = Literal["fits", "fits with a smaller context", "does not fit"]

BATCH_TOKENS = 512  # n_ubatch in common/common.h of llama.cpp
CACHE_STEP = 256  # llama.cpp rounds the cells of a cache up to this
FLOAT_BYTES = 4
# llama.cpp reports 258.5 MiB of compute buffer for Llama 3 8B: 250.5 of it are the logits of a batch,
# and 560 MiB at a context of 8192 without flash attention: 512 of it are attention scores. What is
# left are up to six activations of the hidden size.
ACTIVATIONS = 6
SMALLEST_CONTEXT = 512  # less is no conversation
DEFAULT_CONTEXT = 4096

# Bits a weight of llama.cpp's usual mixes, from tools/quantize/README.md (Llama 3.1 8B).
MIXES = (("Q8_0", 8.5), ("Q6_K", 6.56), ("Q5_K_M", 5.7), ("Q4_K_M", 4.89), ("Q3_K_M", 4.0), ("Q2_K", 3.16))


@dataclass(frozen=True, slots=True)
class Needs:
    """Bytes of memory, by what for."""

    weights_bytes: int
    cache_bytes: int
    buffer_bytes: int

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.cache_bytes + self.buffer_bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """``largest_context`` is what fits beside the weights, None if nothing does."""

    status: Status
    needs: Needs
    available_bytes: int
    context: int
    largest_context: int | None
    reason: str
    advice: str

    @property
    def fits(self) -> bool:
        return self.status == "fits"


def needs(
    shape: ModelShape, context: int, *, kv_type: str | None = None, flash_attention: bool = True
) -> Needs:
    """What a model takes with room for ``context`` tokens."""
    kind = kv_type or shape.kv_type
    layers = [layer.attention for layer in shape.layers if layer.attention is not None]
    elements = sum(each.elements_per_token * _cells(each, context) for each in layers if each.stores)
    logits = shape.vocabulary_size * BATCH_TOKENS * FLOAT_BYTES
    heads = 0 if flash_attention else max((each.heads for each in layers), default=0)
    scores = heads * context * BATCH_TOKENS * FLOAT_BYTES
    activations = ACTIVATIONS * shape.hidden_size * BATCH_TOKENS * FLOAT_BYTES
    return Needs(
        weights_bytes=shape.weight_bytes,
        cache_bytes=ceil(elements * kv_element_bytes(kind)) + shape.state_bytes,
        buffer_bytes=max(logits, scores) + activations,
    )


def verdict(
    shape: ModelShape,
    available_bytes: int,
    *,
    context: int | None = None,
    kv_type: str | None = None,
    flash_attention: bool = True,
) -> Verdict:
    """Whether a model fits with ``context``, by default its own, and what to change if not."""
    wanted = context or shape.context_length or DEFAULT_CONTEXT
    needed = needs(shape, wanted, kv_type=kv_type, flash_attention=flash_attention)
    largest = largest_context(
        shape, available_bytes, at_most=wanted, kv_type=kv_type, flash_attention=flash_attention
    )
    status: Status = "does not fit"
    if largest is not None:
        status = "fits" if largest >= wanted else "fits with a smaller context"
    return Verdict(
        status=status,
        needs=needed,
        available_bytes=available_bytes,
        context=wanted,
        largest_context=largest,
        reason=_reason(needed, available_bytes, wanted),
        advice=_advice(shape, available_bytes, wanted, largest),
    )


def largest_context(
    shape: ModelShape,
    available_bytes: int,
    *,
    at_most: int,
    kv_type: str | None = None,
    flash_attention: bool = True,
) -> int | None:
    """The longest context up to ``at_most`` that fits, in whole steps below it; None if not the smallest."""

    def fits(context: int) -> bool:
        needed = needs(shape, context, kv_type=kv_type, flash_attention=flash_attention)
        return needed.total_bytes <= available_bytes

    if fits(at_most):
        return at_most
    low, high = min(SMALLEST_CONTEXT, at_most) // CACHE_STEP, at_most // CACHE_STEP
    if not fits(low * CACHE_STEP) or at_most <= SMALLEST_CONTEXT:
        return None
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle * CACHE_STEP) else (low, middle - 1)
    return low * CACHE_STEP


def placed_layers(
    shape: ModelShape, rooms: Sequence[int], *, context: int, kv_type: str | None = None
) -> tuple[int, ...] | None:
    """Layers for each device, each filled in turn, so that all fit; None if they do not.

    The output head goes to the last device that gets layers.
    """
    counts: list[int] = []
    start = 0
    for room in rooms:
        count = _layers_that_fit(shape, start, room, context, kv_type)
        counts.append(count)
        start += count
    return tuple(counts) if start == len(shape.layers) else None


def portion(shape: ModelShape, start: int, count: int) -> ModelShape:
    """The model's ``count`` layers from ``start``, with the output head if these are the last."""
    stop = start + count
    head = shape.head if stop == len(shape.layers) else NO_WEIGHTS
    return replace(shape, layers=shape.layers[start:stop], head=head)


def _layers_that_fit(shape: ModelShape, start: int, room: int, context: int, kv_type: str | None) -> int:
    """The most layers from ``start`` that fit; more of them never need less, so it is found by halving."""
    low, high = 0, len(shape.layers) - start
    while low < high:
        count = (low + high + 1) // 2
        fits = needs(portion(shape, start, count), context, kv_type=kv_type).total_bytes <= room
        low, high = (count, high) if fits else (low, count - 1)
    return low


def _cells(attention: Attention, context: int) -> int:
    """Tokens a cache has room for: a sliding window needs itself and one batch."""
    seen = context if attention.window is None else min(context, attention.window + BATCH_TOKENS)
    return ceil(seen / CACHE_STEP) * CACHE_STEP


def _reason(needed: Needs, available_bytes: int, context: int) -> str:
    sign = "are within" if needed.total_bytes <= available_bytes else "exceed"
    return (
        f"{_gb(needed.weights_bytes)} of weights, {_gb(needed.cache_bytes)} of cache for {context:,} tokens "
        f"and {_gb(needed.buffer_bytes)} of buffers {sign} the {_gb(available_bytes)} available"
    )


def _advice(shape: ModelShape, available_bytes: int, wanted: int, largest: int | None) -> str:
    if largest is not None and largest >= wanted:
        return ""
    if largest is None:
        return _smaller(shape, available_bytes)
    quantised = needs(shape, wanted, kv_type="Q8_0").total_bytes <= available_bytes
    alternative = f", or keep the cache in Q8_0 for all {wanted:,}" if quantised else ""
    return f"set the context to {largest:,} tokens{alternative}"


def _smaller(shape: ModelShape, available_bytes: int) -> str:
    """The largest mix of the same model that fits, else how large a model may be."""
    rest = needs(shape, SMALLEST_CONTEXT)
    room = available_bytes - rest.cache_bytes - rest.buffer_bytes
    for mix, bits in MIXES:
        if weight_bytes(shape.parameters, bits) <= min(room, shape.weight_bytes * 0.99):
            return f"take it in {mix}, {_gb(weight_bytes(shape.parameters, bits))} of weights"
    parameters = max(0.0, room) * 8 / dict(MIXES)["Q4_K_M"]
    fitting = f"at most {parameters / 1e9:.1f}e9 parameters in Q4_K_M" if parameters > 1e8 else "less memory"
    return f"take a model of {fitting}, or split this one over several devices"


def _gb(nbytes: float) -> str:
    return f"{nbytes / 1e9:.1f} GB" if nbytes >= 1e8 else f"{nbytes / 1e6:.0f} MB"
