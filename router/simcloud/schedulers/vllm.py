"""vLLM's scheduler (V1): one token budget a step, running sequences first, prompts in chunks.

Owns the order of decisions in a step. Semantics after vllm/v1/core/sched/scheduler.py: running
sequences in order, on a shortage the last admitted is preempted and recomputed; who waits
enters only in steps that preempted nobody. ``asynchronous``: a step is planned while the one
before it runs (on by itself in vLLM 0.19), so an arrival waits for one step more.
``whole_prompt_fits``: enter only if the whole prompt fits now (``scheduler_reserve_full_isl``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from router.simcloud.admission import Gate, Greedy
from router.simcloud.scheduler import UNTIL_CHANGE, Admission, Piece, Plan
from router.simcloud.schedulers.shortage import preempt_for, preempt_in_order
from router.simcloud.state import OrderKey, Sequence, ServerState

GREEDY = Greedy()


@dataclass(frozen=True, slots=True)
class Vllm:
    token_budget: int = 2048
    max_sequences: int = 256
    whole_prompt_fits: bool = True
    asynchronous: bool = True
    gate: Gate = GREEDY
    order: OrderKey | None = None
    victim: OrderKey | None = None  # whom to preempt: the largest key; None is the last admitted
    overtakes: bool = False  # whether the queue's first may preempt a victim that is less urgent
    pads: bool = False
    name: str = "vllm"

    @property
    def lookahead(self) -> int:
        return int(self.asynchronous)

    def plan(self, state: ServerState) -> Plan:
        budget = self.token_budget - state.decoding.tokens
        needed = state.decoding.demand()
        pieces = []
        for sequence in state.prefilling.values():
            tokens = min(sequence.target - sequence.computed, budget)
            if tokens <= 0:
                break
            budget -= tokens
            needed += max(0, state.kv.blocks_for(sequence.computed + tokens) - sequence.blocks)
            pieces.append(Piece(sequence, tokens))
        if needed > state.kv.free:
            return preempt_in_order(state, self.token_budget, self.victim)
        admit: list[Admission] = []
        for admission, piece in self._entering(state, budget, needed):
            admit.append(admission)
            pieces.append(piece)
        if self.overtakes and self.victim and state.waiting and not admit:
            room = self.max_sequences - len(state.running)
            overtaken = preempt_for(state, self.victim, room, state.kv.free - needed)
            if overtaken:
                kept = tuple(piece for piece in pieces if piece.sequence not in overtaken)
                return Plan(True, kept, (), overtaken)
        steady = not state.waiting or (self.gate.steady and not self.overtakes)
        return Plan(
            state.decoding.count > 0, tuple(pieces), tuple(admit), repeats=UNTIL_CHANGE if steady else 1
        )

    def _entering(self, state: ServerState, budget: int, taken: int) -> Iterator[tuple[Admission, Piece]]:
        """``taken``: blocks that those who run take first; they may push out what a waiting one had left."""
        room = self.max_sequences - state.seats
        inside: list[Sequence] = []
        for sequence in state.waiting:
            if budget <= 0 or room < sequence.request.samples:
                return
            if not state.adapter_allowed(sequence, inside):
                continue
            entry = Admission(sequence, state.kv.cached_blocks(sequence, taken))
            pages = state.adapter_needs(sequence, inside)
            start = entry.start(state.kv)
            tokens = min(sequence.target - start, budget)
            must_fit = sequence.target if self.whole_prompt_fits else start + tokens
            needs = state.kv.shortage(sequence, entry.cached, must_fit) + pages
            if not self.gate.admits(state, sequence, inside, needs, state.kv.free - taken):
                return
            if self.gate.reserves:
                bound = sequence.request.bound_tokens
                entry = Admission(sequence, entry.cached, bound)
                taken += state.kv.shortage(sequence, entry.cached, bound)
            else:
                taken += state.kv.shortage(sequence, entry.cached, start + tokens)
            taken += pages
            budget -= tokens
            room -= sequence.request.samples
            inside.append(sequence)
            yield entry, Piece(sequence, tokens)
