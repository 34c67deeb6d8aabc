"""Coefficients of the datasheet tier from published runs.

Owns the fit: least absolute error of the logarithm of a token's time. The formula is
that of bandwidth_model.rates, here taken apart into the terms a coefficient stands before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from statistics import median

import numpy as np
from numpy.typing import NDArray

from bandwidth_model.devices import Silicon, devices
from bandwidth_model.rates import Coefficients, datasheet_rates
from benchmarks.scoreboard import Run

Array = NDArray[np.float64]
Runs = tuple[Run, ...]
Fitted = Mapping[Silicon, Coefficients]

SHADERS: tuple[Silicon, ...] = ("gpu", "apple")
OPERATIONS = (0, 6, 8, 10, 11, 12, 13, 14, 15, 16, 18, 20, 24)  # candidates, one value for both shaders
SHARES = [round(0.40 + 0.01 * step, 2) for step in range(46)]
THREAD_COSTS_S = [round(0.25e-6 * step, 9) for step in range(49)]
PASSES = 3  # the slowdown of caches and the rest are fitted in turn
DEEP = 1024  # rows deeper than this tell what caches cost

_START = Coefficients(0.6, 0, 0, 0, 1, 25, 1, 0, 10, 1, 1, 1, 1)
GPU_PREFILL_MEMORY_WEIGHT = 0.5  # of GPUs; the chips of the others have arithmetic in step with memory


def fit(runs: Sequence[Run]) -> dict[Silicon, Coefficients]:
    """Coefficients for each kind of silicon, without intervals."""
    processors = _fit_processors(_of(runs, "cpu"))
    found: dict[Silicon, Coefficients] = {
        **_fit_shaders(_of(runs, "gpu"), _of(runs, "apple")),
        "cpu": processors,
        "phone": _fit_phones(_of(runs, "phone"), processors),
    }
    shares = {silicon: _prefill_share(_of(runs, silicon), each) for silicon, each in found.items()}
    return {silicon: replace(each, prefill_share=shares[silicon]) for silicon, each in found.items()}


def _of(runs: Sequence[Run], silicon: Silicon) -> Runs:
    return tuple(run for run in runs if run.device.silicon == silicon)


@cache
def _typical(silicon: Silicon) -> float:
    """FP32 operations to a byte of bandwidth, in the middle of the table."""
    known = [each for each in devices() if each.silicon == silicon and each.flops_per_s]
    ratios = [(each.flops_per_s or 0) / each.bandwidth_bytes_per_s for each in known]
    return float(f"{median(ratios):.3g}") if ratios else _typical("cpu")


@dataclass(frozen=True, slots=True)
class _Facts:
    """The same of all runs, one below the other."""

    seconds: Array
    weights: Array  # bytes
    cached: Array  # bytes, where flash attention reads them once
    reread: Array  # bytes, where every query head reads them
    layers: Array
    bandwidth: Array
    flops: Array
    depth: Array


@cache
def _facts(runs: Runs) -> _Facts:
    def column(values: list[float]) -> Array:
        return np.array(values, dtype=np.float64)

    kv = [run.shape.kv_read_bytes(run.depth) if run.flash_attention else 0.0 for run in runs]
    query = [0.0 if run.flash_attention else run.shape.kv_query_bytes(run.depth) for run in runs]
    sheet = [run.device for run in runs]
    flops = [each.flops_per_s or _typical(each.silicon) * each.bandwidth_bytes_per_s for each in sheet]
    return _Facts(
        seconds=column([1 / run.tokens_per_s for run in runs]),
        weights=column([run.shape.bytes_per_token for run in runs]),
        cached=column(kv),
        reread=column(query),
        layers=column([len(run.shape.layers) for run in runs]),
        bandwidth=column([each.bandwidth_bytes_per_s for each in sheet]),
        flops=column(flops),
        depth=column([run.depth for run in runs]),
    )


@cache
def _fit_shaders(gpus: Runs, apples: Runs) -> dict[Silicon, Coefficients]:
    """One operations_per_byte and one kv_slowdown for all shaders, the rest apart."""
    slowdown = 1.0
    for _ in range(PASSES):
        trials = [(_line(gpus, each, slowdown), _line(apples, each, slowdown)) for each in OPERATIONS]
        losses = [gpu.loss * len(gpus) + apple.loss * len(apples) for gpu, apple in trials]
        best = int(np.argmin(losses))
        slowdown = _slowdown(gpus, OPERATIONS[best], trials[best][0].theta)
    return {
        silicon: replace(
            _START,
            bandwidth_share=float(1 / line.theta[0]),
            operations_per_byte=float(OPERATIONS[best]),
            layer_s=float(line.theta[1]),
            kv_operations_per_byte=float(max(line.theta[2], 1.0)),
            kv_slowdown=slowdown,
            prefill_memory_weight=GPU_PREFILL_MEMORY_WEIGHT if silicon == "gpu" else 0.0,
            flops_per_bandwidth=_typical(silicon),
        )
        for silicon, line in zip(SHADERS, trials[best], strict=True)
    }


def _seconds_per_byte(facts: _Facts, operations: float) -> Array:
    return np.hypot(1 / facts.bandwidth, operations / facts.flops)


def _slowdown(runs: Runs, operations: float, theta: Array) -> float:
    """How much slower caches are read than weights, from deep contexts; 1 where no row is deep."""
    facts = _facts(runs)
    deep = (facts.cached > 0) & (facts.depth > DEEP)
    cost = theta[0] * _seconds_per_byte(facts, operations)
    rest = facts.seconds - facts.weights * cost - facts.layers * theta[1]
    ratios = rest[deep] / (facts.cached * cost)[deep]
    return max(1.0, float(np.median(ratios))) if ratios.size else 1.0


@dataclass(frozen=True, slots=True)
class _Line:
    theta: Array
    loss: float


@cache
def _line(runs: Runs, operations: float, slowdown: float) -> _Line:
    """Coefficients of bytes at the combined cost of a byte, of layers, of bytes re-read by arithmetic."""
    facts = _facts(runs)
    nbytes = facts.weights + slowdown * facts.cached
    terms = [nbytes * _seconds_per_byte(facts, operations), facts.layers, facts.reread / facts.flops]
    return _linear(np.column_stack(terms), facts.seconds)


def _linear(terms: Array, seconds: Array, rounds: int = 25) -> _Line:
    """Non-negative coefficients with the least mean |log(predicted / measured)|, by reweighting."""
    relative = terms / seconds[:, None]
    weights = np.ones(len(seconds))
    for _ in range(rounds):
        ratio = np.maximum(relative @ _non_negative(relative, weights), 1e-9)
        away = np.where(np.abs(ratio - 1) < 1e-6, 1e-6, ratio - 1)
        weights = np.abs(np.log1p(away) / away) / np.sqrt(np.maximum(np.abs(np.log(ratio)), 0.02))
    theta = _non_negative(relative, weights)
    return _Line(theta, float(np.abs(np.log(np.maximum(relative @ theta, 1e-9))).mean()))


def _non_negative(relative: Array, weights: Array) -> Array:
    """Weighted least squares to 1, the most negative coefficient dropped until none is."""
    kept = list(range(relative.shape[1]))
    while True:
        part = np.linalg.lstsq(relative[:, kept] * weights[:, None], weights, rcond=None)[0]
        if len(kept) == 1 or part.min() >= 0:
            break
        kept.pop(int(part.argmin()))
    theta = np.zeros(relative.shape[1])
    theta[kept] = np.maximum(part, 0)
    return theta


@cache
def _fit_processors(runs: Runs) -> Coefficients:
    """The best pair of bandwidth share and barrier cost of all on the grid."""
    start = replace(_START, bandwidth_share=1e9, flops_per_bandwidth=_typical("cpu"))
    cores = [datasheet_rates(run.device, threads=run.threads, fitted=start) for run in runs]
    core_rate = np.array([each.stream(_kind(run)) for run, each in zip(runs, cores, strict=True)])
    threads = np.array([each.threads or 0 for each in cores])
    facts = _facts(runs)

    def loss(pair: tuple[float, float]) -> float:
        rate = np.minimum(pair[0] * facts.bandwidth, core_rate)
        seconds = facts.weights / rate + facts.layers * threads * pair[1]
        return float(np.abs(np.log(seconds / facts.seconds)).mean())

    share, cost_s = min(product(SHARES, THREAD_COSTS_S), key=loss)
    return replace(start, bandwidth_share=share, layer_thread_s=cost_s)


def _kind(run: Run) -> str:
    return next(iter(run.shape.layers[0].read_bytes))


def _fit_phones(runs: Runs, processors: Coefficients) -> Coefficients:
    """The median share; that of processors where no phone is left."""
    facts = _facts(runs)
    share = float(np.median(facts.weights / facts.seconds / facts.bandwidth)) if runs else None
    return replace(processors, bandwidth_share=share or processors.bandwidth_share, layer_thread_s=0.0)


@cache
def _prefill_share(runs: Runs, known: Coefficients) -> float:
    """Achieved operations over the data sheet's, in the middle."""
    full = replace(known, prefill_share=1.0)
    shares = []
    for run in runs:
        if run.prefill_tokens_per_s:
            peak = datasheet_rates(run.device, threads=run.threads, fitted=full).prefill_flops_per_s
            start = max(0.0, run.depth - run.prompt_tokens)
            needed = run.shape.prefill_flops(run.prompt_tokens, start) / run.prompt_tokens
            shares.append(run.prefill_tokens_per_s * needed / peak)
    return float(np.median(shares)) if shares else 0.7
