"""Fits what an engine reaches on this machine to runs of it: rates by quantisation, fixed costs.

Pure. Owns the fit. Does not run engines, and does not know where runs are kept.

A token's seconds are linear in what is sought (the reciprocal rates and the costs of a
layer, a token and a unit of attention), and none of that is negative: non-negative least
squares of relative errors, for one number of threads at a time. What attention costs is fitted
first, to how much slower a model is at a depth than without: there everything else cancels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from bandwidth_model.attention_cost import seconds
from bandwidth_model.measured import Calibration
from bandwidth_model.own_runs import OwnRun
from bandwidth_model.predict import BATCH_TOKENS
from bandwidth_model.rates import Rates
from bandwidth_model.shape import ModelShape

Features = dict[str, float]

LOW, HIGH = 0.85, 1.22
"""10 % and 90 % quantiles of measured over predicted rate for models no run was made of
(benchmarks/bench_calibrated.py): most of it is what the same run differs by minutes later."""
DEEP_SHARE = 0.25  # of a token's time: where attention takes less, a difference of two runs is chance
SMALL_SHARE = 0.02  # of a run's bytes: a type read this little in every run has no rate of its own


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt that was read in ``seconds``, by what it took."""

    flops_by_quantization: Mapping[str, float]
    attention_flops: float
    batches: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement of a model at one depth and number of threads, by what a token took.

    ``score_s`` of ``token_s`` went into the scores of the vocabulary; 0.0 where nobody told.

    ``identity`` is the shape's, ``token_s`` seconds a token. ``kv_query_bytes``: the caches,
    once for each query head. ``attention``: its work (attention_cost.py).
    """

    model: str
    identity: str
    threads: int
    depth: float
    token_s: float
    bytes_by_quantization: Mapping[str, float]
    kv_bytes: float
    kv_query_bytes: float
    layers: int
    attention: Mapping[str, float] = field(default_factory=dict)
    vocabulary: int = 0
    score_s: float = 0.0
    prompt: Prompt | None = field(default=None)


def run_of(
    shape: ModelShape,
    *,
    threads: int,
    depth: float,
    token_s: float,
    score_s: float = 0.0,
    kv_type: str | None = None,
    prompt: Prompt | None = None,
) -> Run:
    """A measurement of ``shape``."""
    return Run(
        model=shape.name,
        identity=shape.identity,
        threads=threads,
        depth=depth,
        token_s=token_s,
        bytes_by_quantization=shape.bytes_by_quantization,
        kv_bytes=shape.kv_read_bytes(depth, kv_type),
        kv_query_bytes=shape.kv_query_bytes(depth, kv_type),
        layers=len(shape.layers),
        attention=shape.attention_work(depth, threads, kv_type),
        vocabulary=shape.vocabulary_size,
        score_s=score_s,
        prompt=prompt,
    )


def prompt_of(shape: ModelShape, tokens: int, start: float, seconds: float) -> Prompt:
    return Prompt(
        flops_by_quantization=shape.prefill_flops_by_quantization(tokens),
        attention_flops=shape.attention_flops(tokens, start),
        batches=-(-tokens // BATCH_TOKENS),
        seconds=seconds,
    )


def fit(runs: Iterable[Run], threads: int) -> Calibration:
    """The calibration for ``threads``. Raises ValueError when no run used them."""
    mine = [run for run in runs if run.threads == threads]
    if not mine:
        raise ValueError(f"no run used {threads} threads")
    vocabulary_s = _vocabulary_s(mine)
    attention = _attention(mine)
    found = _decode(mine, vocabulary_s, attention)
    prompts = _prompts([run.prompt for run in mine if run.prompt])
    return Calibration(
        threads=threads,
        stream_bytes_per_s={_name(key): 1 / value for key, value in found.items() if _is_rate(key, value)},
        attention=attention,
        layer_s=found.get("layer", 0.0),
        token_s=found.get("token", 0.0),
        vocabulary_s=vocabulary_s,
        prefill_flops_per_s=_slowest(prompts) or _as_decoding(found),
        prefill_by_quantization={
            _name(key): 1 / value for key, value in prompts.items() if _is_rate(key, value)
        },
        attention_flops_per_s=_rate(prompts.get("attention")),
        low=LOW,
        high=HIGH,
    )


def predicted_s(run: Run, rates: Rates) -> float:
    """What ``rates`` say a token of ``run`` takes."""
    return sum(_predicted_parts(run, rates))


def own_run(run: Run, rates: Rates, runs: int = 1) -> OwnRun:
    """What ``run``, the median of ``runs``, teaches about predictions of its model by ``rates``."""
    rest_s, attention_s = _predicted_parts(run, rates)
    return OwnRun(rest_s, attention_s, run.token_s, runs)


def _predicted_parts(run: Run, rates: Rates) -> tuple[float, float]:
    """The formula of predict.py, for a run: all but attention, and that."""
    working_set = sum(run.bytes_by_quantization.values()) + run.kv_bytes
    rest_s = (
        sum(nbytes / rates.stream(kind, working_set) for kind, nbytes in run.bytes_by_quantization.items())
        + run.layers * rates.layer_s
        + rates.token_s
        + rates.vocabulary_s * run.vocabulary
    )
    if rates.attention is not None:
        return rest_s, seconds(run.attention, rates.attention)
    return rest_s, run.kv_bytes / rates.kv_bytes_per_s + run.kv_query_bytes / rates.kv_query_bytes_per_s


# -- decoding


def _attention(runs: Sequence[Run]) -> Features:
    """Seconds of a unit of each kind, from runs of the same model at two depths."""
    shallow: dict[str, Run] = {}
    for run in runs:
        if run.identity not in shallow or run.depth < shallow[run.identity].depth:
            shallow[run.identity] = run
    rows, more_s = [], []
    for run in runs:
        first = shallow[run.identity]
        if run.token_s - first.token_s >= DEEP_SHARE * run.token_s:
            rows.append({unit: run.attention[unit] - first.attention.get(unit, 0) for unit in run.attention})
            more_s.append(run.token_s - first.token_s)
    return least_squares(rows, more_s) if rows else {}


def _decode(runs: Sequence[Run], vocabulary_s: float, attention: Features) -> Features:
    small = _small(runs)
    known = [vocabulary_s * run.vocabulary + seconds(run.attention, attention) for run in runs]
    rest = [(run, run.token_s - each) for run, each in zip(runs, known, strict=True)]
    # Where what is known takes most of the time, its error is what is left.
    told = [(run, left_s) for run, left_s in rest if left_s > run.token_s / 2]
    return least_squares([_features(run, small) for run, _ in told], [left_s for _, left_s in told])


def _vocabulary_s(runs: Sequence[Run]) -> float:
    """Scoring a token, for each entry of the vocabulary: by the largest, where it takes longest."""
    told = [run for run in runs if run.score_s and run.vocabulary]
    largest = max((run.vocabulary for run in told), default=0)
    return min((run.score_s / largest for run in told if run.vocabulary == largest), default=0.0)


def _features(run: Run, small: frozenset[str]) -> Features:
    main = max(run.bytes_by_quantization, key=lambda kind: run.bytes_by_quantization[kind])
    features: Features = {"layer": run.layers, "token": 1}
    for kind, nbytes in run.bytes_by_quantization.items():
        key = f"bytes {main if kind in small else kind}"
        features[key] = features.get(key, 0.0) + nbytes
    return features


def _small(runs: Sequence[Run]) -> frozenset[str]:
    """Types of which no run reads enough to tell their rate, such as the F32 of norms."""
    most: dict[str, float] = {}
    for run in runs:
        total = sum(run.bytes_by_quantization.values())
        for kind, nbytes in run.bytes_by_quantization.items():
            most[kind] = max(most.get(kind, 0.0), nbytes / total)
    return frozenset(kind for kind, share in most.items() if share < SMALL_SHARE)


# -- prompts


def _prompts(prompts: Sequence[Prompt]) -> Features:
    """Reciprocal FLOP rates by quantisation, and of attention."""
    rows = []
    for prompt in prompts:
        flops = prompt.flops_by_quantization
        main = max(flops, key=lambda kind: flops[kind])
        row: Features = {"attention": prompt.attention_flops}
        for kind, count in flops.items():
            key = f"flops {kind if count > SMALL_SHARE * sum(flops.values()) else main}"
            row[key] = row.get(key, 0.0) + count
        rows.append(row)
    return least_squares(rows, [prompt.seconds for prompt in prompts]) if rows else {}


# -- the fit itself


def least_squares(rows: Sequence[Features], taken_s: Sequence[float]) -> Features:
    """Non-negative costs by feature, so that rows give ``taken_s`` with the least relative error.

    Columns that would be negative are left out, the most negative first; columns of zeros
    are not in the answer.
    """
    import numpy as np

    keys = [key for key in dict.fromkeys(key for row in rows for key in row) if any(r.get(key) for r in rows)]
    target = np.asarray(taken_s)
    matrix = np.array([[row.get(key, 0.0) for key in keys] for row in rows]) / target[:, None]
    scale = matrix.max(axis=0, initial=0.0)
    kept = [i for i in range(len(keys)) if scale[i] > 0]
    while kept:
        solution, *_ = np.linalg.lstsq(matrix[:, kept] / scale[kept], np.ones(len(target)), rcond=None)
        if solution.min() >= 0:
            return {keys[i]: float(x / scale[i]) for i, x in zip(kept, solution, strict=True)}
        kept.pop(int(solution.argmin()))
    return {}


def _name(key: str) -> str:
    return key.partition(" ")[2]


def _is_rate(key: str, value: float) -> bool:
    return " " in key and value > 0


def _rate(cost: float | None) -> float:
    return 1 / cost if cost else inf


def _as_decoding(found: Features) -> float:
    """Operations a second where no prompt was measured: at least those of decoding, two for each byte."""
    return 2 * max((1 / value for key, value in found.items() if _is_rate(key, value)), default=1.0)


def _slowest(prompts: Features) -> float:
    """For types that were not measured."""
    rates = [1 / value for key, value in prompts.items() if _is_rate(key, value)]
    return min(rates, default=0.0)
