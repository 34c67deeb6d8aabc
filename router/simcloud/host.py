"""The host's work in a step: tokenise, detokenise, masks of a grammar; in series with the GPU or beside it.

Owns step costs with that work added (HostedCost). Beside the GPU, processes form a pipeline: a step takes
as long as its slowest stage, and its tokens come out later by what the other stages take. In
one process (or in threads under one interpreter lock) the stages add up.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from router.errors import InvalidSimulation
from router.simcloud.step_cost import Run, StepCost, Work

MASK_S_PER_TOKEN = 50e-6
"""CPU time of one mask over 128k tokens (llguidance's README: about 50 us on average)."""


@dataclass(frozen=True, slots=True)
class HostWork:
    """``per_sequence_s`` for each sequence that a step gives a token; ``per_prompt_token_s`` to tokenise."""

    per_sequence_s: float = 0.0
    per_prompt_token_s: float = 0.0
    overlapped: bool = True

    def __post_init__(self) -> None:
        if not (0 <= self.per_sequence_s < math.inf and 0 <= self.per_prompt_token_s < math.inf):
            raise InvalidSimulation("The host's work is a number of seconds, 0 or more.")


def masks(seconds_per_token: float = MASK_S_PER_TOKEN, cores: int = 1, overlapped: bool = True) -> HostWork:
    """A grammar's mask for every token: known when the step before ends, needed when this one samples."""
    if cores < 1:
        raise InvalidSimulation(f"Masks on {cores} cores are never done.", "Give at least 1.")
    return HostWork(seconds_per_token / cores, overlapped=overlapped)


@dataclass(frozen=True, slots=True)
class HostedCost:
    inner: StepCost
    host: HostWork

    def step_s(self, work: Work) -> float:
        stages = self._stages(work)
        return max(stages) if self.host.overlapped else sum(stages)

    def decode_run(self, decodes: int, context: int) -> Run:
        run = self.inner.decode_run(decodes, context)
        host_s = decodes * self.host.per_sequence_s
        if self.host.overlapped:
            return at_least(run, host_s)
        return Run(run.first_s + host_s, run.growth_s, run.steps)

    def lag_s(self, work: Work) -> float:
        """How long after the step's end its tokens are out."""
        stages = self._stages(work)
        return sum(stages) - max(stages) if self.host.overlapped else 0.0

    def _stages(self, work: Work) -> tuple[float, float, float]:
        tokenise_s = self.host.per_prompt_token_s * sum(chunk.tokens for chunk in work.chunks)
        return tokenise_s, self.inner.step_s(work), self.host.per_sequence_s * work.sampled


def at_least(run: Run, floor_s: float) -> Run:
    """The beginning of a run, in which no step is shorter than ``floor_s``."""
    if run.first_s >= floor_s:
        return run
    if run.growth_s <= 0:
        return Run(floor_s, 0.0, run.steps)
    shorter = math.ceil((floor_s - run.first_s) / run.growth_s)
    return Run(floor_s, 0.0, max(1, min(run.steps, shorter)))
