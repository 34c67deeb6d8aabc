"""The rules of other estimators, on the same published runs.

Owns the formulas as their authors print them, each with its source. Fits nothing but
the one factor of llama-roofline, for which the family of a run is left out as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from bandwidth_model.devices import Silicon
from benchmarks.scoreboard import Run

# Rule of thumb: 0.70 x bandwidth / size of the weights.
THUMB = 0.70
# docs/how-it-works.md of AlexsJones/llmfit: bandwidth / model size x 0.55
LLMFIT = 0.55


def thumb(run: Run) -> float:
    return THUMB * run.device.bandwidth_bytes_per_s / run.shape.file_bytes


def llmfit(run: Run) -> float:
    return LLMFIT * run.device.bandwidth_bytes_per_s / run.shape.file_bytes


def roofline(run: Run) -> float:
    """The data sheet's bandwidth in full, the whole file."""
    return run.device.bandwidth_bytes_per_s / run.shape.file_bytes


def gguf_parser(run: Run) -> float:
    """file_estimate__llamacpp.go of gpustack/gguf-parser-go, one device: weights and cache, each the
    slower of arithmetic and bandwidth, times the share of the layers it counts."""
    device, shape = run.device, run.shape
    flops = device.flops_per_s or float("inf")
    weights_s = max(2 * shape.parameters / flops, shape.file_bytes / device.bandwidth_bytes_per_s)
    cache_s = shape.kv_bytes(run.depth) / device.bandwidth_bytes_per_s
    layers = len(shape.layers)
    return (layers + 2) / ((weights_s + cache_s) * (layers + 1))


RULES: Mapping[str, Callable[[Run], float]] = {
    "0.7 x bandwidth / file": thumb,
    "llmfit: 0.55 x bandwidth / file": llmfit,
    "gguf-parser-go: roofline with cache": gguf_parser,
    "bandwidth / file": roofline,
}


def llama_roofline(runs: Sequence[Run]) -> list[float]:
    """PyPI llama-roofline: bytes read over a fitted share of the bandwidth, a line through the origin.

    The share is fitted for each kind of silicon without the family of the run.
    """
    shares = np.array(
        [run.shape.bytes_per_token * run.tokens_per_s / run.device.bandwidth_bytes_per_s for run in runs]
    )
    silicon = np.array([run.device.silicon for run in runs])
    family = np.array([run.device.family for run in runs])

    def share(kind: Silicon, without: str) -> float:
        others = shares[(silicon == kind) & (family != without)]
        return float(np.median(others if others.size else shares[family != without]))

    return [
        share(run.device.silicon, run.device.family)
        * run.device.bandwidth_bytes_per_s
        / run.shape.bytes_per_token
        for run in runs
    ]


def error_percent(predicted: float, run: Run) -> float:
    return 100 * abs(predicted / run.tokens_per_s - 1)
