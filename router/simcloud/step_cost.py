"""What one step of an engine costs in seconds: the Protocol, and the fake that ships with it.

Owns the description of a step's work. Implementations: ``roofline`` from a data sheet and
efficiencies, ``kernel_tables`` and ``vidur_tables`` from measurements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

FOREVER = 1 << 60


class Chunk(NamedTuple):
    """``tokens`` of a prompt, computed after ``cached`` that are held already."""

    tokens: int
    cached: int


@dataclass(frozen=True, slots=True)
class Work:
    """One step: ``decodes`` sequences with ``context`` tokens in all (their new ones included), and chunks.

    ``sampled`` sequences get a next token: all that decode, and chunks that end their prompt.
    """

    decodes: int = 0
    context: int = 0
    chunks: tuple[Chunk, ...] = ()
    sampled: int = 0

    @property
    def tokens(self) -> int:
        return self.decodes + sum(chunk.tokens for chunk in self.chunks)


class Run(NamedTuple):
    """Decode steps of a fixed batch: the i-th of ``steps`` takes first_s + i * growth_s."""

    first_s: float
    growth_s: float
    steps: int


class StepCost(Protocol):
    def step_s(self, work: Work) -> float:
        """Seconds of one step."""
        ...

    def decode_run(self, decodes: int, context: int) -> Run:
        """Steps in which only ``decodes`` sequences decode; each adds ``decodes`` to ``context``.

        ``context`` is that of the first step. ``step_s`` of the same work gives ``first_s``.
        """
        ...


@dataclass(frozen=True, slots=True)
class LinearCost:
    """The same formula for every step; with only ``step_seconds`` a step takes that, whatever is in it."""

    step_seconds: float
    seconds_per_token: float = 0.0
    seconds_per_context_token: float = 0.0

    def step_s(self, work: Work) -> float:
        prompt = sum(chunk.tokens for chunk in work.chunks)
        run = self.decode_run(work.decodes, work.context)
        return run.first_s + prompt * self.seconds_per_token

    def decode_run(self, decodes: int, context: int) -> Run:
        first_s = (
            self.step_seconds + decodes * self.seconds_per_token + context * self.seconds_per_context_token
        )
        return Run(first_s, decodes * self.seconds_per_context_token, FOREVER)
