"""Step costs from measured kernels: dense.csv, attention.csv, per_sequence.csv (microseconds).

Owns how the tables make up a step. Dense kernels depend on the tokens of a step, the output
head on the sequences sampled, attention on one prompt chunk (tokens, held before) together
with the sequences that decode (how many, mean context). Knows no GPU.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from pathlib import Path

from router.errors import InvalidSimulation
from router.simcloud.curve import Curve, between
from router.simcloud.step_cost import FOREVER, Chunk, Run, Work
from router.simcloud.tables import number, rows

PER_LAYER = {  # kernel in dense.csv -> how often it runs in a layer
    "layernorm": 2,
    "qkv_proj": 1,
    "rotary_emb": 1,
    "o_proj": 1,
    "gate_up_proj": 1,
    "act_fn": 1,
    "down_proj": 1,
}
ONCE = ("embedding", "final_layernorm")
"""Any other kernel, such as a model's qk_norm, runs once in a layer."""

MICRO = 1e-6

Cell = tuple[int, int, int, int]
Mixed = dict[Cell, float]


class KernelTables:
    def __init__(
        self, dense_s: Curve, head_s: Curve, attention_us: Mixed, layers: int, overhead_s: float
    ) -> None:
        self._dense_s, self._head_s = dense_s, head_s
        self._attention = attention_us
        self._scale = layers * MICRO
        self._overhead_s = overhead_s
        axes = list(zip(*attention_us, strict=True))
        self._chunks = sorted({c for c in axes[0] if c})
        self._held = sorted({k for c, k in zip(axes[0], axes[1], strict=True) if c})
        self._decodes = sorted({n for c, n in zip(axes[0], axes[2], strict=True) if n and not c})
        self._mixed_decodes = sorted({n for c, n in zip(axes[0], axes[2], strict=True) if n and c})
        self._contexts = sorted({kv for c, kv in zip(axes[0], axes[3], strict=True) if kv and not c})
        self._mixed_contexts = sorted({kv for c, kv in zip(axes[0], axes[3], strict=True) if kv and c})
        self._decode_curves: dict[int, Curve] = {}
        self._fixed_s: dict[int, float] = {}

    @classmethod
    def read(cls, folder: Path, layers: int, overhead_s: float = 0.0) -> KernelTables:
        dense = _by_layer(folder / "dense.csv", "tokens")
        missing = [kernel for kernel in PER_LAYER if kernel not in dense]
        if missing:
            raise InvalidSimulation(
                f"{folder / 'dense.csv'} has no times of {', '.join(missing)}.",
                "Dense transformers are simulated; a mixture of experts (moe.csv) is not.",
            )
        times = {kernel: 1 if kernel in ONCE else layers * PER_LAYER.get(kernel, 1) for kernel in dense}
        step_s = {
            tokens: MICRO * sum(times[kernel] * dense[kernel].at(tokens) for kernel in dense)
            for tokens in dense["qkv_proj"].knots
        }
        heads = _by_layer(folder / "per_sequence.csv", "sequences")
        knots = {knot for curve in heads.values() for knot in curve.knots}
        head_s = {knot: MICRO * sum(curve.at(knot) for curve in heads.values()) for knot in knots}
        path = folder / "attention.csv"
        columns = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
        attention: Mixed = {}
        for row in rows(path, (*columns, "time_us")):
            c, k, n, kv = (int(number(path, row, column)) for column in columns)
            attention[c, k, n, kv] = number(path, row, "time_us")
        if not attention:
            raise InvalidSimulation(f"{path} is empty.")
        return cls(Curve(step_s), Curve(head_s), _without_holes(attention, path), layers, overhead_s)

    def step_s(self, work: Work) -> float:
        if not work.chunks:
            return self.decode_run(work.decodes, work.context).first_s
        decodes, context, chunks = _single_tokens_decode(work)
        fixed_s = self._overhead_s + self._dense_s.at(work.tokens)
        if work.sampled:
            fixed_s += self._head_s.at(work.sampled)
        if not chunks:
            return fixed_s + self._scale * self._decode_curve(decodes).at(context / decodes)
        return fixed_s + self._scale * self._mixed_us(chunks, decodes, context)

    def decode_run(self, decodes: int, context: int) -> Run:
        fixed_s = self._fixed_s.get(decodes)
        if fixed_s is None:
            fixed_s = self._overhead_s + self._dense_s.at(decodes) + self._head_s.at(decodes)
            self._fixed_s[decodes] = fixed_s
        curve = self._decode_curve(decodes)
        piece = curve.piece(context / decodes)
        growth_s = self._scale * curve.slope(piece)
        first_s = fixed_s + self._scale * curve.at(context / decodes)
        if piece >= len(curve.knots) - 2:
            return Run(first_s, growth_s, FOREVER)
        steps = int(curve.knots[piece + 1] * decodes - context) // decodes + 1
        return Run(first_s, growth_s, max(1, steps))

    def _decode_curve(self, decodes: int) -> Curve:
        """Attention of a layer by mean context, when nothing but ``decodes`` sequences is computed."""
        curve = self._decode_curves.get(decodes)
        if curve is None:
            curve = Curve((kv, self._over_decodes(0, 0, decodes, kv)) for kv in self._contexts)
            self._decode_curves[decodes] = curve
        return curve

    def _over_decodes(self, chunk: int, held: int, decodes: int, context: int) -> float:
        low, high, share = between(self._mixed_decodes if chunk else self._decodes, decodes)
        first = self._attention[chunk, held, low, context]
        return first + share * (self._attention[chunk, held, high, context] - first)

    def _mixed_us(self, chunks: list[Chunk], decodes: int, context: int) -> float:
        """The largest chunk shares a launch with the decodes; the others add what they do beyond that."""
        largest, *others = sorted(chunks, key=_pairs, reverse=True)
        mean = context / decodes if decodes else 0.0
        total = self._chunk_us(largest, decodes, mean)
        launch = self._attention[self._chunks[0], 0, 0, 0]
        return total + sum(max(0.0, self._chunk_us(chunk, 0, 0.0) - launch) for chunk in others)

    def _chunk_us(self, chunk: Chunk, decodes: int, mean: float) -> float:
        """Between chunk sizes by the pairs of tokens compared, which is what the kernel works on."""
        tokens = max(chunk.tokens, self._chunks[0])
        low, high, _ = between(self._chunks, tokens)
        low_pairs, high_pairs = (_pairs(Chunk(size, chunk.cached)) for size in (low, high))
        share = (_pairs(Chunk(tokens, chunk.cached)) - low_pairs) / (high_pairs - low_pairs)
        first = self._held_us(low, chunk.cached, decodes, mean)
        return first + share * (self._held_us(high, chunk.cached, decodes, mean) - first)

    def _held_us(self, chunk: int, held: int, decodes: int, mean: float) -> float:
        low, high, share = between(self._held, held)
        first = self._context_us(chunk, low, decodes, mean)
        return first + share * (self._context_us(chunk, high, decodes, mean) - first)

    def _context_us(self, chunk: int, held: int, decodes: int, mean: float) -> float:
        if not decodes:
            return self._attention[chunk, held, 0, 0]
        low, high, share = between(self._mixed_contexts, mean)
        first = self._over_decodes(chunk, held, decodes, low)
        return first + share * (self._over_decodes(chunk, held, decodes, high) - first)


def _without_holes(measured: Mixed, path: Path) -> Mixed:
    """The whole grid. What is larger than was measured beside the same context takes as much longer as it
    computes or reads more; a prompt and decodes not measured together follow each other."""
    whole = dict(measured)
    chunks, held = (sorted({cell[axis] for cell in measured if cell[0]}) for axis in (0, 1))
    decodes, contexts = (
        sorted({cell[axis] for cell in measured if cell[2] and not cell[0]}) for axis in (2, 3)
    )
    for k in held:
        _extend(whole, [(c, k, 0, 0) for c in chunks], [_pairs(Chunk(c, k)) for c in chunks], path)
    for kv in contexts:
        _extend(whole, [(0, 0, n, kv) for n in decodes], decodes, path)
    launch = min(measured.values())
    beside = {(n, kv) for c, _, n, kv in measured if n and c}
    for c, k in product(chunks, held):
        for n, kv in beside:
            alone = whole[c, k, 0, 0] + whole[0, 0, n, kv] - launch
            whole.setdefault((c, k, n, kv), alone)
    return whole


def _extend(whole: Mixed, cells: list[Cell], amounts: Iterable[float], path: Path) -> None:
    """A cell that is missing has the time of the one before, in proportion to ``amounts``."""
    before: tuple[float, float] | None = None
    for cell, amount in zip(cells, amounts, strict=True):
        if cell not in whole:
            if before is None:
                raise InvalidSimulation(f"{path}: no time for chunk, held, decodes, context {cell}.")
            whole[cell] = before[0] * amount / before[1]
        before = whole[cell], amount


def _pairs(chunk: Chunk) -> float:
    return chunk.tokens * (chunk.cached + chunk.tokens / 2)


def _single_tokens_decode(work: Work) -> tuple[int, int, list[Chunk]]:
    """A chunk of one token is, to the kernels, a sequence that decodes."""
    singles = [chunk for chunk in work.chunks if chunk.tokens == 1]
    context = work.context + sum(chunk.cached + 1 for chunk in singles)
    return work.decodes + len(singles), context, [chunk for chunk in work.chunks if chunk.tokens > 1]


def _by_layer(path: Path, size: str) -> dict[str, Curve]:
    points: dict[str, dict[float, float]] = {}
    for row in rows(path, ("layer", size, "time_us")):
        points.setdefault(row["layer"], {})[number(path, row, size)] = number(path, row, "time_us")
    return {layer: Curve(found) for layer, found in points.items()}
