"""Models that no calibration saw and nobody chose: drawn by a seed, as well-known models are built.

Owns the draw. Sizes are spread evenly (by their logarithm) from 0.1 to 3 billion parameters, the
quantisations dealt out among them; how heads are shared and how long they are, the vocabulary and
how much wider the feed-forward is are those of dense models of the catalogue, each drawn on its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from random import Random

from bandwidth_model.catalogue import known_models
from bandwidth_model.random_gguf import Geometry

QUANTIZATIONS = ("Q4_0", "Q4_1", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "F16")
COUNT = 8
LEAST, MOST = 0.1e9, 3e9
MOST_BYTES = 2.4e9  # of a file: models of two bytes a weight are among the smaller
BYTES = {"F16": 2.0, "Q8_0": 1.07}
MOST_LIKE = 8e9  # parameters of a model whose proportions are taken
STEP = 256  # widths are multiples of it: a block of the K types
VOCABULARY_SHARE = 0.3  # of the parameters at most


@dataclass(frozen=True, slots=True)
class HeldOut:
    name: str
    geometry: Geometry
    quantization: str
    head: str


def held_out(seed: int) -> list[HeldOut]:
    """COUNT models, the smallest first."""
    random = Random(seed)
    sizes = list(_sizes(random))
    kinds = [*QUANTIZATIONS, *random.choices(QUANTIZATIONS, k=COUNT - len(QUANTIZATIONS))]
    random.shuffle(kinds)
    while any(size * BYTES.get(kind, 0) > MOST_BYTES for size, kind in zip(sizes, kinds, strict=True)):
        random.shuffle(kinds)
    return [_drawn(random, size, kind) for size, kind in zip(sizes, kinds, strict=True)]


def _sizes(random: Random) -> Iterator[float]:
    for slot in range(COUNT):
        yield LEAST * (MOST / LEAST) ** ((slot + random.random()) / COUNT)


def _drawn(random: Random, parameters: float, kind: str) -> HeldOut:
    plain = [each for each in known_models() if not each.experts and not each.key_rank]
    dense = [each for each in plain if each.parameters <= MOST_LIKE]
    deep, shared, long, wide, many = (random.choice(dense) for _ in range(5))
    aspect = deep.hidden / deep.layers
    hidden = _step((parameters * aspect / 12) ** (1 / 3))
    length = long.head_dim or long.hidden // long.heads
    least = STEP // gcd(STEP, length)  # heads that make a row of whole blocks
    heads = max(least, round(hidden / length / least) * least)
    kv_heads = min(
        (count for count in range(1, heads + 1) if heads % count == 0),
        key=lambda count: abs(heads / count - shared.heads / shared.kv_heads),
    )
    feed_forward = _step(hidden * wide.feed_forward / wide.hidden)
    vocabulary = min(many.vocabulary, int(VOCABULARY_SHARE * parameters / hidden)) // 64 * 64
    in_layer = hidden * (2 * heads * length + 2 * kv_heads * length + 3 * feed_forward)
    layers = max(4, round((parameters - vocabulary * hidden) / in_layer))
    geometry = Geometry(layers, hidden, feed_forward, heads, kv_heads, length, vocabulary)
    total = (layers * in_layer + vocabulary * hidden) / 1e9
    head = {"Q4_0": "Q6_K", "Q4_K": "Q6_K", "Q5_K": "Q6_K"}.get(kind, kind)  # as llama.cpp's mixes have it
    return HeldOut(f"{total:.2f}B {kind}", geometry, kind, head)


def _step(width: float) -> int:
    return max(STEP, round(width / STEP) * STEP)
