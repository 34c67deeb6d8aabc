"""Shape and rates -> Prediction: decode and prefill speed, first token, with an interval and its basis.

Pure. Owns the formula of a token:

    sum over quantisations of bytes / stream rate  +  cache bytes / cache rate
    (where attention was measured: units of its work x their costs)
    +  layers x cost of a layer  +  cost of a token  +  hops between devices

Does not know where rates come from (rates.py) nor whether a model fits (memory.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

from bandwidth_model.attention_cost import seconds
from bandwidth_model.rates import Rates, Tier
from bandwidth_model.shape import NO_WEIGHTS, ModelShape

BATCH_TOKENS = 512  # n_ubatch in common/common.h of llama.cpp: a prompt is computed in pieces of this
PROMPT_TOKENS = 512  # what published prefill rates are for (llama-bench's pp512)
ACTIVATION_BYTES = 4  # llama.cpp hands F32 activations from device to device

# Assumptions where nobody measured; a Prediction names them in its basis.
DISK_BYTES_PER_S = 2e9  # sequential read of a mid-range NVMe drive
LOAD_S = 0.3  # what loading takes beyond reading the file

TIERS: tuple[Tier, ...] = ("datasheet", "probed", "calibrated")  # from the least to the most certain


@dataclass(frozen=True, slots=True)
class Placement:
    """The next ``layers`` layers of a model run at ``rates``; the last placement has the output head."""

    rates: Rates
    layers: int


@dataclass(frozen=True, slots=True)
class Link:
    """Between two devices. The default is PCIe 4.0 x16, of which about 25 of 32 GB/s are reached."""

    bytes_per_s: float = 25e9
    latency_s: float = 10e-6


@dataclass(frozen=True, slots=True)
class DecodeTerms:
    """Seconds of one token, by where they go."""

    weights_s: float
    kv_s: float
    layers_s: float
    token_s: float
    hops_s: float = 0.0

    @property
    def total_s(self) -> float:
        return self.weights_s + self.kv_s + self.layers_s + self.token_s + self.hops_s

    def __add__(self, other: DecodeTerms) -> DecodeTerms:
        return DecodeTerms(
            self.weights_s + other.weights_s,
            self.kv_s + other.kv_s,
            self.layers_s + other.layers_s,
            self.token_s + other.token_s,
            self.hops_s + other.hops_s,
        )


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Seconds until the first token, by where they go; of a warm start the first two are 0."""

    load_s: float
    page_in_s: float
    prefill_s: float
    decode_s: float

    @property
    def ttft_s(self) -> float:
        return self.load_s + self.page_in_s + self.prefill_s + self.decode_s


@dataclass(frozen=True, slots=True)
class Conditions:
    """``depth``: tokens before the decoded one, the last ``prompt_tokens`` of them still to be computed.

    ``kv_type`` None: the model's own.
    """

    depth: float = 0
    prompt_tokens: int = PROMPT_TOKENS
    kv_type: str | None = None
    disk_bytes_per_s: float = DISK_BYTES_PER_S

    @property
    def prompt_start(self) -> float:
        """The depth at which the prompt begins."""
        return max(0.0, self.depth - self.prompt_tokens)


@dataclass(frozen=True, slots=True)
class Basis:
    """All that a prediction rests on."""

    devices: tuple[str, ...]
    threads: int | None
    kv_type: str
    bytes_per_token: float
    kv_read_bytes: float
    terms: DecodeTerms
    conditions: Conditions


@dataclass(frozen=True, slots=True)
class Prediction:
    """``low`` and ``high`` bound 80 % of what is measured where a prediction like this is made.

    ``guessed``: a device of it is not known at all; see Rates.
    """

    decode_tokens_per_s: float
    low: float
    high: float
    prefill_tokens_per_s: float
    prefill_low: float
    prefill_high: float
    cold: FirstToken
    warm: FirstToken
    tier: Tier
    basis: Basis
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class _Part:
    """What one device does for a token and for a prompt."""

    rates: Rates
    terms: DecodeTerms
    prefill_s: float


def predict(shape: ModelShape, rates: Rates, conditions: Conditions | None = None) -> Prediction:
    """A model on one device."""
    return predict_split(shape, [Placement(rates, len(shape.layers))], conditions)


def predict_split(
    shape: ModelShape,
    placements: Sequence[Placement],
    conditions: Conditions | None = None,
    link: Link | None = None,
) -> Prediction:
    """A model split by layers over devices, which work on a token one after the other."""
    given = conditions or Conditions()
    parts = _parts(shape, placements, given)
    hops_s = (len(parts) - 1) * _hop_s(shape, link or Link())
    terms = sum((part.terms for part in parts), DecodeTerms(0, 0, 0, 0, hops_s))
    prompt_s = sum(part.prefill_s for part in parts)
    warm = FirstToken(0.0, 0.0, prompt_s, terms.total_s)
    return Prediction(
        decode_tokens_per_s=1 / terms.total_s,
        low=1 / (hops_s + sum(part.terms.total_s / part.rates.low for part in parts)),
        high=1 / (hops_s + sum(part.terms.total_s / part.rates.high for part in parts)),
        prefill_tokens_per_s=given.prompt_tokens / prompt_s,
        prefill_low=given.prompt_tokens / sum(part.prefill_s / part.rates.prefill_low for part in parts),
        prefill_high=given.prompt_tokens / sum(part.prefill_s / part.rates.prefill_high for part in parts),
        cold=replace(warm, load_s=LOAD_S, page_in_s=shape.file_bytes / given.disk_bytes_per_s),
        warm=warm,
        tier=min((part.rates.tier for part in parts), key=TIERS.index),
        basis=_basis(shape, parts, terms, given),
        guessed=any(part.rates.guessed for part in parts),
    )


def _basis(shape: ModelShape, parts: Sequence[_Part], terms: DecodeTerms, given: Conditions) -> Basis:
    kv_type = given.kv_type or shape.kv_type
    return Basis(
        devices=tuple(part.rates.device for part in parts),
        threads=next((part.rates.threads for part in parts if part.rates.threads), None),
        kv_type=kv_type,
        bytes_per_token=shape.bytes_per_token,
        kv_read_bytes=shape.kv_read_bytes(given.depth, kv_type),
        terms=terms,
        conditions=given,
    )


def decode_terms(shape: ModelShape, rates: Rates, depth: float, kv_type: str) -> DecodeTerms:
    """One token on one device, of the part of a model that lies there."""
    kv_bytes = shape.kv_read_bytes(depth, kv_type)
    state_bytes = 2 * shape.state_bytes
    working_set = shape.bytes_per_token + kv_bytes
    weights = shape.bytes_by_quantization.items()
    return DecodeTerms(
        weights_s=sum(nbytes / rates.stream(kind, working_set) for kind, nbytes in weights),
        kv_s=state_bytes / rates.stream("F32", working_set) + _attention_s(shape, rates, depth, kv_type),
        layers_s=len(shape.layers) * rates.layer_s,
        token_s=rates.token_s + rates.vocabulary_s * shape.vocabulary_size,
    )


def _attention_s(shape: ModelShape, rates: Rates, depth: float, kv_type: str) -> float:
    if rates.attention is not None:
        return seconds(shape.attention_work(depth, rates.threads or 1, kv_type), rates.attention)
    cached_bytes = shape.kv_read_bytes(depth, kv_type) - 2 * shape.state_bytes
    again_bytes = shape.kv_query_bytes(depth, kv_type)
    return cached_bytes / rates.kv_bytes_per_s + again_bytes / rates.kv_query_bytes_per_s


def prefill_s(shape: ModelShape, rates: Rates, prompt_tokens: int, start: float = 0) -> float:
    """A whole prompt in batches; each of them reads the weights at least once."""
    batches = ceil(prompt_tokens / BATCH_TOKENS)
    one = decode_terms(shape, rates, 0, shape.kv_type)
    weights = shape.prefill_flops_by_quantization(prompt_tokens).items()
    arithmetic_s = sum(flops / rates.prefill(kind) for kind, flops in weights)
    arithmetic_s += shape.attention_flops(prompt_tokens, start) / (
        rates.attention_flops_per_s or rates.prefill_flops_per_s
    )
    reading_s = batches * one.weights_s * _experts_touched(shape, min(prompt_tokens, BATCH_TOKENS))
    return max(arithmetic_s, reading_s) + batches * one.layers_s


def _experts_touched(shape: ModelShape, tokens: int) -> float:
    """How much more than for one token a batch reads: it needs more of the experts."""
    return shape.read_bytes_for_batch(tokens) / shape.bytes_per_token if shape.bytes_per_token else 1.0


def _parts(shape: ModelShape, placements: Sequence[Placement], given: Conditions) -> list[_Part]:
    kv_type = given.kv_type or shape.kv_type
    parts = []
    for portion, rates in _portions(shape, placements):
        terms = decode_terms(portion, rates, given.depth, kv_type)
        parts.append(_Part(rates, terms, prefill_s(portion, rates, given.prompt_tokens, given.prompt_start)))
    return parts


def _portions(shape: ModelShape, placements: Sequence[Placement]) -> Iterator[tuple[ModelShape, Rates]]:
    """The parts of a model that lie on each device, each a shape of its own; the head comes last."""
    total = sum(placement.layers for placement in placements)
    if total != len(shape.layers):
        raise ValueError(f"{total} layers are placed; the model has {len(shape.layers)}")
    start = 0
    for index, placement in enumerate(placements, 1):
        is_last = index == len(placements)
        portion = replace(
            shape,
            layers=shape.layers[start : start + placement.layers],
            head=shape.head if is_last else NO_WEIGHTS,
            expert_bytes=round(shape.expert_bytes * placement.layers / max(1, total)),
        )
        yield portion, placement.rates if is_last else replace(placement.rates, token_s=0.0, vocabulary_s=0.0)
        start += placement.layers


def _hop_s(shape: ModelShape, link: Link) -> float:
    return shape.hidden_size * ACTIVATION_BYTES / link.bytes_per_s + link.latency_s
