"""Schedulers, one idea each, and how they are found by name.

Owns the names people type and each policy's usual values. Adding a policy: a module here with
a class that has Scheduler's members, and a line in POLICIES.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from router.errors import InvalidSimulation
from router.simcloud.admission import (
    FuturePeak,
    Gate,
    Greedy,
    InFlight,
    PastFuture,
    Predicted,
    Reserve,
    lightllm_estimate,
    up_to_bound,
)
from router.simcloud.dynamic.rule import BatchRule
from router.simcloud.ordering import ORDERS, by_priority
from router.simcloud.scheduler import Scheduler
from router.simcloud.schedulers.orca import Orca
from router.simcloud.schedulers.prefill_first import OLD_VLLM, PrefillFirst
from router.simcloud.schedulers.request_level import RequestLevel
from router.simcloud.schedulers.static import Static
from router.simcloud.schedulers.vllm import Vllm

SARATHI_CHUNK_TOKENS = 512
"""The chunk that Sarathi's authors and vidur use most."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may set of a policy; None is the policy's own usual value."""

    max_sequences: int | None = None
    token_budget: int | None = None
    asynchronous: bool | None = None
    whole_prompt_fits: bool | None = None
    admission: str | None = None
    order: str | None = None
    tokens_in_flight: int | None = None
    seed: int = 0
    preferred: tuple[int, ...] = ()  # batch sizes of request-level batching
    max_delay_s: float = 0.0


def by_name(name: str, options: Options) -> Scheduler:
    build = POLICIES.get(name)
    if build is None:
        raise InvalidSimulation(f"No policy is called {name!r}.", f"There are: {', '.join(POLICIES)}.")
    for value, what in (
        (options.max_sequences, "sequences"),
        (options.token_budget, "tokens"),
        (options.tokens_in_flight, "tokens in flight"),
    ):
        if value is not None and value < 1:
            raise InvalidSimulation(f"At most {value} {what}: nothing could run.", "Give at least 1.")
    if options.order is not None and options.order not in ORDERS:
        raise InvalidSimulation(f"No order is called {options.order!r}.", f"There are: {', '.join(ORDERS)}.")
    return build(options)


def gate_by_name(options: Options, usual: Gate) -> Gate:
    if options.tokens_in_flight is not None:
        return InFlight(options.tokens_in_flight)
    if options.admission is None:
        return usual
    build = GATES.get(options.admission)
    if build is None:
        raise InvalidSimulation(
            f"No admission is called {options.admission!r}.", f"There are: {', '.join(GATES)}."
        )
    return build(options.seed)


def _vllm(options: Options, name: str = "vllm", budget: int = 2048, overlap: bool = True) -> Scheduler:
    sequences = options.max_sequences or 256
    budget = options.token_budget or max(budget, sequences)
    if budget < sequences:
        raise InvalidSimulation(
            f"A budget of {budget} tokens a step cannot hold {sequences} sequences that decode.",
            "Raise --token-budget or lower --max-num-seqs.",
        )
    urgent_first = options.order == "priority"
    return Vllm(
        token_budget=budget,
        max_sequences=sequences,
        whole_prompt_fits=options.whole_prompt_fits in (None, True),
        asynchronous=overlap if options.asynchronous is None else options.asynchronous,
        gate=gate_by_name(options, Greedy()),
        order=ORDERS[options.order or "fcfs"],
        victim=by_priority if urgent_first else None,
        overtakes=urgent_first,
        name=name,
    )


def _sarathi(options: Options) -> Scheduler:
    return _vllm(options, "sarathi", SARATHI_CHUNK_TOKENS, overlap=False)


def _vllm_old(options: Options) -> Scheduler:
    return _prefill_first(options, "vllm-old", OLD_VLLM)


def _lightllm(options: Options) -> Scheduler:
    return _prefill_first(options, "lightllm", FuturePeak(PastFuture(options.seed)))


def _prefill_first(options: Options, name: str, usual: Gate) -> Scheduler:
    return PrefillFirst(
        token_budget=options.token_budget or 4096,
        max_sequences=options.max_sequences or 256,
        gate=gate_by_name(options, usual),
        order=ORDERS[options.order or "fcfs"],
        name=name,
    )


def _static(options: Options) -> Scheduler:
    return Static(options.max_sequences or 8, ORDERS[options.order or "fcfs"])


def _triton(options: Options) -> Scheduler:
    rule = BatchRule(options.max_sequences or 8, options.preferred, options.max_delay_s)
    return RequestLevel(rule, ORDERS[options.order or "fcfs"])


def _orca(options: Options) -> Scheduler:
    return Orca(options.max_sequences or 256, ORDERS[options.order or "fcfs"])


POLICIES: dict[str, Callable[[Options], Scheduler]] = {
    "static": _static,
    "triton": _triton,
    "orca": _orca,
    "vllm-old": _vllm_old,
    "vllm": _vllm,
    "sarathi": _sarathi,
    "lightllm": _lightllm,
}
BLOCK_TOKENS = {"lightllm": 1}
"""Tokens in a block, where it is not 16: Token Attention keeps each token by itself."""

GATES: dict[str, Callable[[int], Gate]] = {
    "greedy": lambda seed: Greedy(),
    "reserve": lambda seed: Reserve(),
    "future-peak": lambda seed: FuturePeak(up_to_bound),
    "lightllm": lambda seed: FuturePeak(lightllm_estimate),
    "past-future": lambda seed: FuturePeak(PastFuture(seed)),
    "predicted": lambda seed: FuturePeak(Predicted()),
}
