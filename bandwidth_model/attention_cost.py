"""What one token's attention takes of a processor, as llama.cpp computes it.

Pure. Owns the units of work of a layer's attention; what a unit costs on a machine is
fitted to runs (calibrate.py). Does not know weights.

ggml_compute_forward_flash_attn_ext (ggml/src/ggml-cpu/ops.cpp) goes through the cached keys once
for each query head, and for each key takes a product with the query, an exponential, and adds
the value: a visit, which costs something itself and something for each byte. The first of the
query heads that share a cached head finds its keys and values in memory, each a row of
head_length numbers, the rows of one head lying as far apart as all heads are long together.
Processors foresee some such strides and wait at others: a row costs what was measured at its
length and stride, whatever the depth. The other query heads find it in the core's cache.

The threads share the keys, counted in steps of 256, not the heads: at depth 1,024 the first of two
has 640 of them. Below 512 they share the heads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import ceil, log2

from bandwidth_model.attention import Attention, kv_element_bytes

KEYS_STEP = 256  # llama_kv_cache::get_n_kv in src/llama-kv-cache.cpp
LEAST_SHARED_KEYS = 512  # use_split_kv_path in ops.cpp

KNOTS: Mapping[int, tuple[int, ...]] = {128: (512, 1024, 2048), 256: (512, 1024, 2048)}
"""Bytes of a row -> strides in bytes, each with a cost of its own; between them it is interpolated.
Heads of 64 and 128 numbers in half precision, as nearly all models have."""
VISIT, VISIT_BYTE = "visit", "visit byte"


def attention_work(attention: Attention, depth: float, kv_type: str, threads: int) -> dict[str, float]:
    """Units of work that the busiest thread has with one layer when ``depth`` tokens came before."""
    element_bytes = kv_element_bytes(kv_type)
    visits = _visits(attention.heads, attention.tokens_seen(depth), threads)
    pair_bytes = (attention.key_length + (0 if attention.latent else attention.value_length)) * element_bytes
    work = {VISIT: visits, VISIT_BYTE: visits * pair_bytes}
    if attention.kv_heads > 1:  # the rows of a single head lie end to end
        row_bytes = attention.key_length * element_bytes
        for knot, weight in _knots(row_bytes, row_bytes * attention.kv_heads):
            work[knot] = work.get(knot, 0.0) + weight * visits / attention.query_ratio
    return work


def seconds(work: Mapping[str, float], costs: Mapping[str, float]) -> float:
    """What ``work`` takes where a unit of it takes ``costs`` seconds."""
    return sum(amount * costs.get(unit, 0.0) for unit, amount in work.items())


def _visits(heads: int, keys: float, threads: int) -> float:
    """Of keys by query heads, those of the busiest thread."""
    counted = KEYS_STEP * ceil((keys + 1) / KEYS_STEP)
    if counted < LEAST_SHARED_KEYS:
        return ceil(heads / threads) * keys
    return heads * min(keys, ceil(counted / threads))


def _knots(row_bytes: float, stride_bytes: float) -> Iterator[tuple[str, float]]:
    for row, row_weight in _between(row_bytes, sorted(KNOTS)):
        for stride, weight in _between(stride_bytes, (row, *KNOTS[row])):
            if stride > row:  # end to end nothing is waited for
                yield f"row {row}/{stride}", row_weight * weight


def _between(value: float, knots: Sequence[int]) -> Iterator[tuple[int, float]]:
    """The knots around ``value`` with their weights, by its logarithm; beyond the ends the last one."""
    inside = min(max(value, knots[0]), knots[-1])
    for low, high in pairwise(knots):
        if low <= inside <= high:
            share = log2(inside / low) / log2(high / low)
            yield low, 1 - share
            yield high, share
            return
