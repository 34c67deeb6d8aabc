"""Schedulers, one idea each, and how they are found by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from router.errors import InvalidSimulation
from router.simcloud.scheduler import Scheduler
from router.simcloud.schedulers.vllm import Vllm


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may set of a policy; None is the policy's own usual value."""

    max_sequences: int | None = None
    token_budget: int | None = None
    asynchronous: bool | None = None
    whole_prompt_fits: bool | None = None


def by_name(name: str, options: Options) -> Scheduler:
    build = POLICIES.get(name)
    if build is None:
        raise InvalidSimulation(f"No policy is called {name!r}.", f"There are: {', '.join(POLICIES)}.")
    for value, what in ((options.max_sequences, "sequences"), (options.token_budget, "tokens")):
        if value is not None and value < 1:
            raise InvalidSimulation(f"At most {value} {what} a step: nothing could run.", "Give at least 1.")
    return build(options)


def _vllm(options: Options) -> Scheduler:
    sequences = options.max_sequences or 256
    budget = options.token_budget or max(2048, sequences)
    if budget < sequences:
        raise InvalidSimulation(
            f"A budget of {budget} tokens a step cannot hold {sequences} sequences that decode.",
            "Raise --token-budget or lower --max-num-seqs.",
        )
    whole = True if options.whole_prompt_fits is None else options.whole_prompt_fits
    overlap = True if options.asynchronous is None else options.asynchronous
    return Vllm(budget, sequences, whole, overlap)


POLICIES: dict[str, Callable[[Options], Scheduler]] = {"vllm": _vllm}
