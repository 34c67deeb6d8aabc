"""Speculative decoding: a draft proposes tokens, one pass of the model verifies them all.

Owns how many are accepted (each with the same chance, after the one before it was), the blocks
that must be there for those that may be, and what such a step costs. A rejected draft leaves one token, the
model's own. Draws are a request's own, so that no schedule changes them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from router.errors import InvalidSimulation
from router.simcloud.state import NOT_DECODING, DecodeGroup, Sequence
from router.simcloud.step_cost import Run, StepCost, Work


@dataclass(frozen=True, slots=True)
class Speculation:
    """``drafts`` tokens are proposed in each step, each accepted with chance ``acceptance``."""

    drafts: int = 4
    acceptance: float = 0.7
    seed: int = 0

    def __post_init__(self) -> None:
        if self.drafts < 1 or not 0 <= self.acceptance <= 1:
            raise InvalidSimulation("Speculation needs at least 1 draft, and an acceptance of 0 to 1.")

    def tokens(self, draw: random.Random) -> int:
        """What one step yields: the accepted ones and the model's own next."""
        accepted = 0
        while accepted < self.drafts and draw.random() < self.acceptance:
            accepted += 1
        return accepted + 1

    @property
    def mean_tokens(self) -> float:
        """1 + a + a^2 + ... + a^drafts."""
        return float(sum(self.acceptance**power for power in range(self.drafts + 1)))


class SpeculativeGroup(DecodeGroup):
    """Sequences that each produce as many tokens a tick as are accepted; their fields are always of now.

    Each holds blocks for all it may produce in the coming step, up to its bound.
    """

    __slots__ = ("_draws", "_left", "_members", "speculation")

    def __init__(self, block_tokens: int, speculation: Speculation) -> None:
        super().__init__(block_tokens)
        self.speculation = speculation
        self._members: dict[int, Sequence] = {}
        self._left: dict[int, int] = {}
        self._draws: dict[int, random.Random] = {}  # kept while a sequence is preempted

    @property
    def tokens(self) -> int:
        return self.count * (self.speculation.drafts + 1)

    def join(self, sequence: Sequence, steps_left: int) -> None:
        number = sequence.request.id
        sequence.anchor = self.tick
        self._members[number] = sequence
        self._left[number] = steps_left
        if number not in self._draws:
            self._draws[number] = random.Random(self.speculation.seed * 1_000_003 + number)
        self.count += 1
        self.context += sequence.computed

    def leave(self, sequence: Sequence) -> None:
        del self._members[sequence.request.id]
        sequence.anchor = NOT_DECODING
        self.count -= 1
        self.context -= sequence.computed

    def advance(self, ticks: int) -> list[Sequence]:
        assert ticks == 1, "steps that draw are taken singly"
        self.tick += 1
        ended = [sequence for sequence in self._members.values() if self._grow(sequence)]
        for sequence in ended:
            self.leave(sequence)
            del self._draws[sequence.request.id]
        return ended

    def _grow(self, sequence: Sequence) -> bool:
        """Whether it ends with this tick."""
        number = sequence.request.id
        sequence.private += self.blocks_needed(sequence)
        tokens = min(self._left[number], self.speculation.tokens(self._draws[number]))
        self._left[number] -= tokens
        sequence.computed += tokens
        sequence.generated += tokens
        self.context += tokens
        return not self._left[number]

    def next_end(self) -> int:
        return self.tick + 1  # it may end with every step

    def demand(self) -> int:
        return sum(self.blocks_needed(sequence) for sequence in self._members.values())

    def demand_over(self, ticks: int) -> int:
        return self.demand()

    def computed(self, sequence: Sequence) -> int:
        return sequence.computed

    def generated(self, sequence: Sequence) -> int:
        return sequence.generated

    def held(self, sequence: Sequence) -> int:
        return sequence.blocks

    def blocks_needed(self, sequence: Sequence) -> int:
        if sequence.reserved or sequence.anchor == NOT_DECODING:
            return 0
        ahead = min(sequence.computed + self.speculation.drafts + 1, sequence.request.bound_tokens)
        return max(0, -(-ahead // self.block_tokens) - sequence.blocks)


@dataclass(frozen=True, slots=True)
class SpeculativeCost:
    """One pass over ``drafts + 1`` tokens of each sequence that decodes, after ``drafts`` steps of the draft
    model, which also reads all prompts. ``draft`` None proposes for nothing, as looking n-grams up does."""

    inner: StepCost
    draft: StepCost | None
    drafts: int

    def step_s(self, work: Work) -> float:
        more = work.decodes * self.drafts
        verify = Work(work.decodes + more, work.context, work.chunks, work.sampled + more)
        return self.inner.step_s(verify) + self._draft_s(work)

    def decode_run(self, decodes: int, context: int) -> Run:
        return Run(self.step_s(Work(decodes, context, sampled=decodes)), 0.0, 1)

    def _draft_s(self, work: Work) -> float:
        if self.draft is None:
            return 0.0
        seconds = self.draft.step_s(Work(chunks=work.chunks)) if work.chunks else 0.0
        if work.decodes:
            seconds += self.drafts * self.draft.step_s(Work(work.decodes, work.context, sampled=work.decodes))
        return seconds
