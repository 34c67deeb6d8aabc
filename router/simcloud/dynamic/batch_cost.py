"""What a whole batch costs: the Protocol, a straight line, encoders, and padded generation.

Owns how members of different lengths are padded: all are computed as long as the longest.
Does not know who is in the batch or why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from router.errors import InvalidSimulation
from router.simcloud.encoder import Encoder
from router.simcloud.gpu import Gpu
from router.simcloud.request import Job
from router.simcloud.step_cost import Chunk, StepCost, Work


class Times(NamedTuple):
    """Seconds after the batch began: first tokens are there, and everything is."""

    first_s: float
    end_s: float


class BatchCost(Protocol):
    def times(self, members: Sequence[Job]) -> Times: ...


@dataclass(frozen=True, slots=True)
class LinearBatch:
    """``fixed_s`` and ``per_request_s`` for each member, whatever its length."""

    fixed_s: float
    per_request_s: float

    def __post_init__(self) -> None:
        if not (0 <= self.fixed_s < math.inf and 0 <= self.per_request_s < math.inf):
            raise InvalidSimulation("A batch takes a number of seconds, and more for each request, not less.")

    def times(self, members: Sequence[Job]) -> Times:
        seconds = self.fixed_s + self.per_request_s * len(members)
        return Times(seconds, seconds)


@dataclass(frozen=True, slots=True)
class EncoderBatch:
    encoder: Encoder
    gpu: Gpu

    def times(self, members: Sequence[Job]) -> Times:
        longest = max(job.request.prompt_tokens for job in members)
        seconds = self.encoder.batch_s(len(members), longest, self.gpu)
        return Times(seconds, seconds)


@dataclass(frozen=True, slots=True)
class PaddedGeneration:
    """All prompts in one step, then decode steps until the longest answer ends; then all are returned."""

    cost: StepCost

    def times(self, members: Sequence[Job]) -> Times:
        size = len(members)
        prompt = max(job.request.prompt_tokens for job in members)
        first_s = self.cost.step_s(Work(chunks=(Chunk(prompt, 0),) * size, sampled=size))
        steps = max(job.length for job in members) - 1
        return Times(first_s, first_s + self._decode_s(size, prompt + 1, steps))

    def _decode_s(self, size: int, length: int, steps: int) -> float:
        seconds = 0.0
        while steps > 0:
            run = self.cost.decode_run(size, size * length)
            count = min(steps, run.steps)
            seconds += count * run.first_s + run.growth_s * (count * (count - 1) / 2)
            length, steps = length + count, steps - count
        return seconds
