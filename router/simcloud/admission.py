"""May one more request enter? Four answers, as functions over plain state.

Owns gates: what each compares with the KV cache's capacity. Does not order the queue and
does not decide what a step computes. A gate sees bounds of lengths (``max_tokens``),
predictions and the lengths of answers that have ended, never how long an answer will be.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Several
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from router.simcloud.state import Sequence, ServerState

LIGHTLLM_MARGIN = 1.1
LIGHTLLM_LEAST_TOKENS = 1024
"""LightLLM counts on at least this many tokens, and a tenth more than were generated."""


class Gate(Protocol):
    @property
    def reserves(self) -> bool:
        """Whether who enters takes blocks up to its bound at once."""
        ...

    @property
    def steady(self) -> bool:
        """Whether a refusal stands until a sequence ends or arrives."""
        ...

    def admits(
        self, state: ServerState, sequence: Sequence, entering: Several[Sequence], needs: int, free: int
    ) -> bool:
        """``needs`` blocks for its prompt, of ``free`` that nobody of this step takes."""
        ...


@dataclass(frozen=True, slots=True)
class Greedy:
    """Who fits now enters; ``watermark`` is the share of all blocks that stays free."""

    watermark: float = 0.0
    reserves: bool = False
    steady: bool = True

    def admits(
        self, state: ServerState, sequence: Sequence, entering: Several[Sequence], needs: int, free: int
    ) -> bool:
        spare = int(self.watermark * state.kv.capacity) if state.running else 0
        return needs + spare <= free


@dataclass(frozen=True, slots=True)
class Reserve:
    """Who fits even at its bound enters, and holds blocks for that from the start: nobody is preempted."""

    reserves: bool = True
    steady: bool = True

    def admits(
        self, state: ServerState, sequence: Sequence, entering: Several[Sequence], needs: int, free: int
    ) -> bool:
        return state.kv.blocks_for(sequence.request.bound_tokens) <= free


@dataclass(frozen=True, slots=True)
class InFlight:
    """Prompts and bounds of all that run stay within ``tokens``; one request alone always enters."""

    tokens: int
    reserves: bool = False
    steady: bool = True

    def admits(
        self, state: ServerState, sequence: Sequence, entering: Several[Sequence], needs: int, free: int
    ) -> bool:
        inside = [*state.running.values(), *entering]
        held = sum(each.request.bound_tokens for each in inside)
        return needs <= free and (not inside or held + sequence.request.bound_tokens <= self.tokens)


@dataclass(frozen=True, slots=True)
class FuturePeak:
    """Enter if, were everyone to generate all that ``remaining`` says, the cache would never overflow."""

    remaining: Callable[[ServerState, Sequence], int]
    reserves: bool = False
    steady: bool = False

    def admits(
        self, state: ServerState, sequence: Sequence, entering: Several[Sequence], needs: int, free: int
    ) -> bool:
        inside = [*state.running.values(), *entering, sequence]
        if needs > free or len(inside) == 1:
            return needs <= free
        pairs = [(self._held(state, each), self.remaining(state, each)) for each in inside]
        part_blocks = len(inside) * (state.kv.block_tokens - 1)
        return peak_tokens(pairs) + part_blocks <= state.kv.capacity * state.kv.block_tokens

    def _held(self, state: ServerState, sequence: Sequence) -> int:
        return max(sequence.target, state.decoding.computed(sequence))


def peak_tokens(pairs: Iterable[tuple[int, int]]) -> int:
    """The most tokens ever held, if each (held, remaining) grows by one a step and then leaves.

    Only at the moment somebody ends can it be largest: with the k longest still there, each has grown
    by the k-th's remaining.
    """
    peak = total = 0
    for index, (held, remaining) in enumerate(sorted(pairs, key=lambda pair: -pair[1]), 1):
        total += held
        peak = max(peak, total + remaining * index)
    return peak


def up_to_bound(state: ServerState, sequence: Sequence) -> int:
    return max(1, sequence.request.max_tokens - state.decoding.generated(sequence))


def lightllm_estimate(state: ServerState, sequence: Sequence) -> int:
    """With a queue the bound; otherwise a margin over what was generated, but at least 1024."""
    generated = state.decoding.generated(sequence)
    if len(state.waiting) > 1:
        return up_to_bound(state, sequence)
    expected = max(LIGHTLLM_MARGIN * generated, LIGHTLLM_LEAST_TOKENS)
    return max(1, min(sequence.request.max_tokens, int(expected)) - generated)


@dataclass(frozen=True, slots=True)
class PastFuture:
    """Remaining lengths as answers that ended lately had them, given that they exceed what is generated.

    Each request draws its place in that distribution once, by ``seed``.
    """

    seed: int = 0

    def __call__(self, state: ServerState, sequence: Sequence) -> int:
        generated = state.decoding.generated(sequence)
        length = state.recent_lengths.at(_place(self.seed, sequence.request.id), generated)
        if length is None:
            return up_to_bound(state, sequence)
        return max(1, min(length, sequence.request.max_tokens) - generated)


@lru_cache(maxsize=1 << 16)
def _place(seed: int, request: int) -> float:
    """Where in the distribution a request stands: the same each time it is asked."""
    return random.Random(seed * 1_000_003 + request).random()


@dataclass(frozen=True, slots=True)
class Predicted:
    """The request's own prediction, raised to what it has generated already."""

    margin: float = 1.0

    def __call__(self, state: ServerState, sequence: Sequence) -> int:
        predicted = sequence.request.predicted_tokens
        if predicted is None:
            return up_to_bound(state, sequence)
        bound = min(sequence.request.max_tokens, int(predicted * self.margin))
        return max(1, bound - state.decoding.generated(sequence))
