"""vLLM's old policy and LightLLM's router: whole prompts first, in steps of their own.

Owns the rule that while somebody may enter, those that decode wait. Which requests may enter
is a gate's answer (``admission``). On a shortage the last admitted is preempted.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.simcloud.admission import Gate, Greedy
from router.simcloud.scheduler import UNTIL_CHANGE, Admission, Piece, Plan
from router.simcloud.schedulers.shortage import preempt_in_order
from router.simcloud.state import OrderKey, Sequence, ServerState

VLLM_WATERMARK = 0.01
"""Share of blocks the old vLLM kept free at admission (its default watermark)."""

OLD_VLLM = Greedy(VLLM_WATERMARK)


@dataclass(frozen=True, slots=True)
class PrefillFirst:
    """``token_budget`` bounds the prompts of one step together; a longer prompt goes alone."""

    token_budget: int = 4096
    max_sequences: int = 256
    gate: Gate = OLD_VLLM
    order: OrderKey | None = None
    lookahead: int = 0
    pads: bool = False
    name: str = "vllm-old"

    def plan(self, state: ServerState) -> Plan:
        entering = self._entering(state)
        if entering:
            pieces = tuple(
                Piece(entry.sequence, entry.sequence.target - entry.start(state.kv)) for entry in entering
            )
            return Plan(False, pieces, tuple(entering))
        if state.decoding.demand() > state.kv.free:
            return preempt_in_order(state, self.token_budget, None)
        return Plan(True, repeats=UNTIL_CHANGE if self.gate.steady or not state.waiting else 1)

    def _entering(self, state: ServerState) -> list[Admission]:
        budget, taken, seats = self.token_budget, 0, state.seats
        entering: list[Admission] = []
        inside: list[Sequence] = []
        for sequence in state.waiting:
            if not state.adapter_allowed(sequence, inside):
                continue
            entry = Admission(sequence, state.kv.cached_blocks(sequence, taken))
            tokens = sequence.target - entry.start(state.kv)
            needs = state.kv.shortage(sequence, entry.cached, sequence.target)
            needs += state.adapter_needs(sequence, inside)
            seats += sequence.request.samples
            if seats > self.max_sequences or (entering and tokens > budget):
                break
            if not self.gate.admits(state, sequence, inside, needs, state.kv.free - taken):
                break
            if self.gate.reserves:
                bound = sequence.request.bound_tokens
                entry = Admission(sequence, entry.cached, bound)
                needs = state.kv.shortage(sequence, entry.cached, bound)
            budget -= tokens
            taken += needs
            entering.append(entry)
            inside.append(sequence)
        return entering
