"""Step costs from vidur's tables: per-layer times in milliseconds, and its profiles of linear ops.

Owns how vidur makes a step of them: linear ops at the tokens rounded up to 8, attention of
decodes at their mean context rounded up to 64, attention of prompts at the sum of what is held
and the root of the sum of squared chunks; the two attentions cost a tenth more when they hold
more than one sequence. LinearOps takes only the linear ops; attention is the roofline's.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from pathlib import Path

from router.errors import InvalidSimulation
from router.simcloud.curve import Curve
from router.simcloud.roofline import Roofline
from router.simcloud.step_cost import FOREVER, Run, Work
from router.simcloud.tables import number, rows

MILLI = 1e-3
TOKENS_TO = 8
CONTEXT_TO = 64
SEVERAL = 1.1  # vidur's default for attention over several sequences


class VidurTables:
    def __init__(
        self,
        linear_ms: Curve,
        decode_ms: dict[tuple[int, int], float],
        prefill_ms: dict[tuple[int, int], float],
        layers: int,
        overhead_s: float,
    ) -> None:
        self._linear_ms, self._decode_ms, self._prefill_ms = linear_ms, decode_ms, prefill_ms
        self._scale = layers * MILLI
        self._overhead_s = overhead_s
        self._batches = sorted({batch for batch, _ in decode_ms})
        self._contexts = sorted({context for _, context in decode_ms})
        self._held = sorted({held for held, _ in prefill_ms})
        self._chunks = sorted({chunk for _, chunk in prefill_ms})

    @classmethod
    def read(cls, folder: Path, prefix: str, layers: int, overhead_s: float = 0.0) -> VidurTables:
        path = folder / f"{prefix}linear_ops_per_layer.csv"
        linear = {
            number(path, row, "num_tokens"): sum(
                number(path, row, name) for name in row if name.endswith("_ms")
            )
            for row in rows(path, ("num_tokens",))
        }
        decode = _pairs(folder / f"{prefix}attn_decode_per_layer.csv", "batch_size", "kv_cache_size")
        prefill = _pairs(folder / f"{prefix}attn_prefill_per_layer.csv", "kv_cache_size", "chunk")
        if not (linear and decode and prefill):
            raise InvalidSimulation(f"One of the tables {prefix}*_per_layer.csv in {folder} is empty.")
        return cls(Curve(linear), decode, prefill, layers, overhead_s)

    def step_s(self, work: Work) -> float:
        milliseconds = self._linear_ms.at(-(-work.tokens // TOKENS_TO) * TOKENS_TO)
        if work.decodes:
            milliseconds += self._decodes_ms(work.decodes, work.context - work.decodes)
        if work.chunks:
            held = _at_least(self._held, sum(chunk.cached for chunk in work.chunks))
            chunk = _at_least(self._chunks, math.sqrt(sum(chunk.tokens**2 for chunk in work.chunks)))
            milliseconds += self._prefill_ms[held, chunk] * (SEVERAL if len(work.chunks) > 1 else 1.0)
        return self._overhead_s + self._scale * milliseconds

    def decode_run(self, decodes: int, context: int) -> Run:
        held = context - decodes  # tokens held before the step, as vidur counts
        first_s = self.step_s(Work(decodes, context))
        limit = _at_least(self._contexts, held / decodes)
        if held > limit * decodes:
            return Run(first_s, 0.0, FOREVER)
        return Run(first_s, 0.0, (limit * decodes - held) // decodes + 1)

    def _decodes_ms(self, decodes: int, held: int) -> float:
        batch = _at_least(self._batches, decodes)
        context = _at_least(self._contexts, held / decodes)
        milliseconds = self._decode_ms[batch, context] * (SEVERAL if decodes > 1 else 1.0)
        return milliseconds * max(1.0, decodes / batch, held / decodes / max(1, context))


class LinearOps:
    """Linear ops as profiled, attention as the roofline has it."""

    def __init__(self, linear_ms: Curve, roofline: Roofline) -> None:
        self._linear_ms, self._roofline = linear_ms, roofline

    @classmethod
    def read(cls, path: Path, roofline: Roofline) -> LinearOps:
        """Several profiles of the same number of tokens are averaged."""
        layers = roofline.llm.layers
        times: dict[float, list[float]] = defaultdict(list)
        for row in rows(path, ("num_tokens", "num_tensor_parallel_workers")):
            if number(path, row, "num_tensor_parallel_workers") == roofline.gpus:
                times[number(path, row, "num_tokens")].append(
                    sum(
                        number(path, row, name) * (1 if ".emb." in name else layers)
                        for name in row
                        if name.endswith(".median")
                    )
                )
        if not times:
            raise InvalidSimulation(f"{path} has no profile for {roofline.gpus} GPUs.")
        return cls(Curve((n, sum(found) / len(found)) for n, found in times.items()), roofline)

    def linear_s(self, tokens: int) -> float:
        return MILLI * self._linear_ms.at(tokens)

    def step_s(self, work: Work) -> float:
        rest_s = self._roofline.head_s(work.sampled) + self._roofline.attention_s(work)
        return self._roofline.gpu.overhead_s + self.linear_s(work.tokens) + rest_s

    def decode_run(self, decodes: int, context: int) -> Run:
        growth_s = self._roofline.decode_run(decodes, context).growth_s
        return Run(self.step_s(Work(decodes, context, sampled=decodes)), growth_s, FOREVER)


def _pairs(path: Path, first: str, second: str) -> dict[tuple[int, int], float]:
    found = {}
    for row in rows(path, (first, second)):
        (time,) = (name for name in row if name.endswith("_ms"))
        found[int(number(path, row, first)), int(number(path, row, second))] = number(path, row, time)
    return found


def _at_least(knots: list[int], value: float) -> int:
    """The table's next size; beyond it the largest."""
    return knots[min(bisect_left(knots, value), len(knots) - 1)]
