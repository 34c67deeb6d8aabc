"""How fast each part of a token goes on one device, whoever says so.

Owns the three tiers: datasheet (device and published runs), probed (this machine's
memory measured), calibrated (the engine itself measured). Does not know models.

The datasheet tier takes what a stream of weights reaches as

    processors:      min(share x bandwidth, threads x core rate / operations a byte)
    GPUs, phones:    share / hypot(1 / bandwidth, operations a byte / FP32 rate)

since a GPU whose arithmetic is weak for its memory cannot keep the memory busy. The
coefficients are fitted to published runs by benchmarks/fit_datasheet.py.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from math import hypot, inf, log
from typing import Literal

from bandwidth_model.devices import Device, Silicon, devices
from bandwidth_model.measured import CacheSpeed, Calibration, Probe
from bandwidth_model.own_runs import OwnRun, factors

Tier = Literal["datasheet", "probed", "calibrated"]

# Operations to decode a byte of weights on a processor. One core of a server (110e9 FP32 operations/s)
# read 29 GB/s of memory and streamed 18 GB/s of Q4_K; llama.cpp's repacked Q4_0, Q8_0 and F16 keep up
# with memory (ikawrakow/ik_llama.cpp discussion 164: Q4_0, Q8_0, F16 against K and IQ types).
CHEAP_OPERATIONS_PER_BYTE = 3.8
COSTLY_OPERATIONS_PER_BYTE = 6.1
CHEAP = frozenset({"F32", "F16", "BF16", "Q8_0", "Q4_0", "IQ4_NL"})
CORE_FLOPS_PER_S = 110e9  # that server's core, for processors whose cores the table does not have

# Of a plain read, what streaming weights reached: 36.7 to 42.0 of 54.3 GB/s (llama-roofline README,
# i7-12700H), 190.6 of 256 (ik_llama.cpp PR 534, 7965WX), 67 of 68.9 (discussion 201, 7950X).
PROBED_SHARE = 0.80
PROBED_LOW, PROBED_HIGH = 0.80, 1.20

# After a model's own runs: what they differ by from one time to the next (benchmarks/bench_calibrated.py).
OWN_LOW, OWN_HIGH = 0.93, 1.07
INTERVAL_DEVIATIONS = 2.56  # how many standard deviations 80 % of a normal distribution span

TYPICAL = "a typical processor"  # the name of the device where nobody knows which one it is
THIS_MACHINE = "this machine"

THUMB_SHARE = 0.70
THUMB_LOW, THUMB_HIGH = 0.55, 1.23  # measured over predicted in benchmarks/scoreboard.csv, quantiles as there


@dataclass(frozen=True, slots=True)
class Rates:
    """``low`` and ``high``: the 10 % and 90 % quantiles of measured over predicted decode rate.

    ``guessed``: nobody knows which device it is, so these are another's.
    """

    tier: Tier
    device: str
    other_bytes_per_s: float
    kv_bytes_per_s: float
    layer_s: float
    token_s: float
    prefill_flops_per_s: float
    low: float
    high: float
    prefill_low: float
    prefill_high: float
    stream_bytes_per_s: Mapping[str, float] = field(default_factory=dict)
    kv_query_bytes_per_s: float = inf  # caches read again for every query head, without flash attention
    attention: Mapping[str, float] | None = None  # seconds of a unit (attention_cost.py), instead of both
    threads: int | None = None
    cache: CacheSpeed | None = None
    vocabulary_s: float = 0.0  # scoring a token, for each entry of the vocabulary
    attention_flops_per_s: float | None = None  # of prompts, where it differs from that of weights
    prefill_by_quantization: Mapping[str, float] = field(default_factory=dict)
    guessed: bool = False

    def stream(self, quantization: str, working_set_bytes: float = inf) -> float:
        """Bytes/s of weights in ``quantization``, more where everything read for a token fits the cache."""
        rate = self.stream_bytes_per_s.get(quantization, self.other_bytes_per_s)
        if self.cache and working_set_bytes <= self.cache.nbytes:
            return max(rate, self.cache.bytes_per_s)
        return rate

    def prefill(self, quantization: str) -> float:
        """Operations/s on weights in ``quantization`` while a prompt is read."""
        return self.prefill_by_quantization.get(quantization, self.prefill_flops_per_s)


@dataclass(frozen=True, slots=True)
class Coefficients:
    """What published runs say about one kind of silicon; see coefficients.toml."""

    bandwidth_share: float
    operations_per_byte: float
    layer_s: float
    layer_thread_s: float
    kv_slowdown: float
    kv_operations_per_byte: float
    prefill_share: float
    prefill_memory_weight: float
    flops_per_bandwidth: float
    low: float
    high: float
    prefill_low: float
    prefill_high: float


@cache
def coefficients() -> Mapping[Silicon, Coefficients]:
    table = files("bandwidth_model").joinpath("coefficients.toml").read_text(encoding="utf-8")
    rows = tomllib.loads(table)["silicon"]
    return {silicon: Coefficients(**rows[silicon]) for silicon in rows}


def datasheet_rates(
    device: Device,
    *,
    threads: int | None = None,
    flash_attention: bool = True,
    fitted: Coefficients | None = None,
) -> Rates:
    """What published runs on other devices let one expect of ``device``."""
    known = fitted or coefficients()[device.silicon]
    flops = device.flops_per_s or known.flops_per_bandwidth * device.bandwidth_bytes_per_s
    if device.silicon == "cpu":
        return _processor_rates(device, known, threads, flops)
    seconds_per_byte = hypot(1 / device.bandwidth_bytes_per_s, known.operations_per_byte / flops)
    stream = known.bandwidth_share / seconds_per_byte
    reread = inf if flash_attention else flops / known.kv_operations_per_byte
    return Rates(
        tier="datasheet",
        device=device.name,
        other_bytes_per_s=stream,
        kv_bytes_per_s=stream / known.kv_slowdown if flash_attention else inf,
        kv_query_bytes_per_s=reread,
        layer_s=known.layer_s,
        token_s=0.0,
        prefill_flops_per_s=_prefill_flops_per_s(device, known, flops),
        low=known.low,
        high=known.high,
        prefill_low=known.prefill_low,
        prefill_high=known.prefill_high,
    )


def _prefill_flops_per_s(device: Device, known: Coefficients, flops: float) -> float:
    """What prompts reach. Matrix rates of GPUs follow FP32 and bandwidth alike: their geometric mean."""
    usual = known.flops_per_bandwidth * device.bandwidth_bytes_per_s
    weight = known.prefill_memory_weight
    return float(known.prefill_share * flops ** (1 - weight) * usual**weight)


def _processor_rates(device: Device, known: Coefficients, threads: int | None, flops: float) -> Rates:
    used = min(threads or device.cores or 0, device.cores or threads or 0)
    core = device.core_flops_per_s or CORE_FLOPS_PER_S
    memory = known.bandwidth_share * device.bandwidth_bytes_per_s
    cheap = min(memory, used * core / CHEAP_OPERATIONS_PER_BYTE) if used else memory
    costly = min(memory, used * core / COSTLY_OPERATIONS_PER_BYTE) if used else memory
    return Rates(
        tier="datasheet",
        device=device.name,
        other_bytes_per_s=costly,
        stream_bytes_per_s=dict.fromkeys(CHEAP, cheap),
        kv_bytes_per_s=cheap / known.kv_slowdown,
        layer_s=known.layer_s + known.layer_thread_s * used,
        token_s=0.0,
        prefill_flops_per_s=_prefill_flops_per_s(device, known, used * core if used else flops),
        low=known.low,
        high=known.high,
        prefill_low=known.prefill_low,
        prefill_high=known.prefill_high,
        threads=used or None,
    )


def typical_rates(threads: int) -> Rates:
    """For a processor that the table does not have: the median of those it has, and how they spread."""
    from statistics import quantiles

    known = [each for each in devices() if each.silicon == "cpu" and each.kind != "board"]
    ordered = sorted(each.bandwidth_bytes_per_s for each in known)
    deciles = quantiles(ordered, n=10, method="inclusive")
    middle = min(known, key=lambda each: abs(each.bandwidth_bytes_per_s - deciles[4]))
    rates = datasheet_rates(middle, threads=threads)
    return replace(
        rates,
        device=TYPICAL,
        guessed=True,
        low=rates.low * deciles[0] / deciles[4],
        high=rates.high * deciles[-1] / deciles[4],
        prefill_low=rates.prefill_low / 2,
        prefill_high=rates.prefill_high * 2,
    )


def thumb_rates(bandwidth_bytes_per_s: float, *, name: str = "a device") -> Rates:
    """The rule of thumb, 0.70 x bandwidth / bytes, for a device of which only the bandwidth is known."""
    stream = THUMB_SHARE * bandwidth_bytes_per_s
    return Rates(
        tier="datasheet",
        device=name,
        other_bytes_per_s=stream,
        kv_bytes_per_s=stream,
        layer_s=0.0,
        token_s=0.0,
        prefill_flops_per_s=coefficients()["phone"].flops_per_bandwidth * bandwidth_bytes_per_s,
        low=THUMB_LOW,
        high=THUMB_HIGH,
        prefill_low=coefficients()["phone"].prefill_low,
        prefill_high=coefficients()["phone"].prefill_high,
    )


def probed_rates(probe: Probe, *, threads: int, name: str = THIS_MACHINE) -> Rates:
    """What this machine's measured memory lets one expect, before an engine ran on it."""
    known = coefficients()["cpu"]
    memory = PROBED_SHARE * probe.at(threads)
    core = probe.at(1)
    costly = min(memory, threads * core * CHEAP_OPERATIONS_PER_BYTE / COSTLY_OPERATIONS_PER_BYTE)
    return Rates(
        tier="probed",
        device=name,
        other_bytes_per_s=costly,
        stream_bytes_per_s=dict.fromkeys(CHEAP, memory),
        kv_bytes_per_s=memory / known.kv_slowdown,
        layer_s=known.layer_s + known.layer_thread_s * threads,
        token_s=0.0,
        prefill_flops_per_s=probe.flops_per_s,
        low=PROBED_LOW,
        high=PROBED_HIGH,
        prefill_low=known.prefill_low,
        prefill_high=known.prefill_high,
        threads=threads,
        cache=probe.cache,
    )


def calibrated_rates(calibration: Calibration, *, name: str = THIS_MACHINE) -> Rates:
    """What the engine's own runs let one expect of other models."""
    known = calibration.stream_bytes_per_s
    return Rates(
        tier="calibrated",
        device=name,
        other_bytes_per_s=_nearest(known, cheap=False),
        stream_bytes_per_s={**dict.fromkeys(CHEAP, _nearest(known, cheap=True)), **known},
        kv_bytes_per_s=inf,
        attention=calibration.attention,
        layer_s=calibration.layer_s,
        token_s=calibration.token_s,
        prefill_flops_per_s=calibration.prefill_flops_per_s,
        low=calibration.low,
        high=calibration.high,
        prefill_low=calibration.prefill_low,
        prefill_high=calibration.prefill_high,
        threads=calibration.threads,
        # No cache: an engine computes more slowly than one reads, and its own streams were measured.
        vocabulary_s=calibration.vocabulary_s,
        attention_flops_per_s=calibration.attention_flops_per_s,
        prefill_by_quantization=calibration.prefill_by_quantization,
    )


def adjusted(rates: Rates, own: Iterable[OwnRun]) -> Rates:
    """For a model of which there are ``own`` runs on this machine, by what ``rates`` said of them."""
    found = factors(own, deviation=log(rates.high / rates.low) / INTERVAL_DEVIATIONS)
    streams = rates.stream_bytes_per_s.items()
    attention = rates.attention
    return replace(
        rates,
        tier="calibrated",
        device=THIS_MACHINE,
        guessed=False,
        other_bytes_per_s=rates.other_bytes_per_s / found.rest,
        stream_bytes_per_s={kind: rate / found.rest for kind, rate in streams},
        kv_bytes_per_s=rates.kv_bytes_per_s / found.attention,
        kv_query_bytes_per_s=rates.kv_query_bytes_per_s / found.attention,
        attention=attention and {unit: cost * found.attention for unit, cost in attention.items()},
        layer_s=rates.layer_s * found.rest,
        token_s=rates.token_s * found.rest,
        vocabulary_s=rates.vocabulary_s * found.rest,
        cache=rates.cache and replace(rates.cache, bytes_per_s=rates.cache.bytes_per_s / found.rest),
        low=OWN_LOW,
        high=OWN_HIGH,
    )


def _nearest(known: Mapping[str, float], cheap: bool) -> float:
    """The rate for types that were not measured: the slowest one that decodes alike, else the slowest."""
    alike = [rate for kind, rate in known.items() if (kind in CHEAP) == cheap]
    return min(alike or known.values())
