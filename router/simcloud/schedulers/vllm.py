"""vLLM's scheduler (V1): one token budget a step, running sequences first, prompts in chunks.

Owns the order of decisions in a step. Semantics after vllm/v1/core/sched/scheduler.py: running
sequences in order, on a shortage the last admitted is preempted and recomputed; who waits
enters only in steps that preempted nobody. ``asynchronous``: a step is planned while the one
before it runs (vLLM's default since 0.14), so an arrival waits for one step more.
``whole_prompt_fits``: enter only if the whole prompt fits now (``scheduler_reserve_full_isl``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from router.simcloud.scheduler import Admission, Piece, Plan
from router.simcloud.state import NOT_DECODING, OrderKey, Sequence, ServerState

VictimKey = Callable[[Sequence], tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Vllm:
    token_budget: int = 2048
    max_sequences: int = 256
    whole_prompt_fits: bool = True
    asynchronous: bool = True
    order: OrderKey | None = None
    victim: VictimKey | None = None  # whom to preempt: the largest key; None is the last admitted
    name: str = "vllm"

    @property
    def lookahead(self) -> int:
        return int(self.asynchronous)

    def plan(self, state: ServerState) -> Plan:
        budget = self.token_budget - state.decoding.count
        needed = state.decoding.demand()
        pieces = []
        for sequence in state.prefilling.values():
            tokens = min(sequence.target - sequence.computed, budget)
            if tokens <= 0:
                break
            budget -= tokens
            needed += state.kv.blocks_for(sequence.computed + tokens) - sequence.blocks
            pieces.append(Piece(sequence, tokens))
        if needed > state.kv.free:
            return self._short(state)
        admit: list[Admission] = []
        for admission, piece in self._entering(state, budget, state.kv.free - needed):
            admit.append(admission)
            pieces.append(piece)
        return Plan(state.decoding.count > 0, tuple(pieces), tuple(admit))

    def _entering(self, state: ServerState, budget: int, free: int) -> Iterator[tuple[Admission, Piece]]:
        room = self.max_sequences - len(state.running)
        for sequence in state.waiting:
            if budget <= 0 or room <= 0:
                return
            cached = state.kv.cached_blocks(sequence)
            start = cached * state.kv.block_tokens
            tokens = min(sequence.target - start, budget)
            must_fit = sequence.target if self.whole_prompt_fits else start + tokens
            if state.kv.shortage(sequence, cached, must_fit) > free:
                return
            free -= state.kv.shortage(sequence, cached, start + tokens)
            budget -= tokens
            room -= 1
            yield Admission(sequence, cached), Piece(sequence, tokens)

    def _short(self, state: ServerState) -> Plan:
        """Not all running sequences can grow: in order, each takes what it needs from the victims."""
        kv, decoding = state.kv, state.decoding
        free, budget = kv.free, self.token_budget
        order = list(state.running.values())
        alive = dict.fromkeys(sequence.request.id for sequence in order)
        pieces: dict[int, Piece] = {}
        needs: dict[int, int] = {}
        victims: list[Sequence] = []
        for sequence in order:
            if sequence.request.id not in alive or not _can_run(sequence, state):
                continue
            tokens = 1
            need = int(decoding.needs_block(sequence))
            if sequence.anchor == NOT_DECODING:
                tokens = max(0, min(sequence.target - sequence.computed, budget))
                need = kv.blocks_for(sequence.computed + tokens) - sequence.blocks
            while need > free:
                victim = self._victim(state, alive)
                del alive[victim.request.id]
                victims.append(victim)
                budget += pieces.pop(victim.request.id, Piece(victim, 0)).tokens
                free += decoding.held(victim) - kv.shared_by_others(victim) + needs.pop(victim.request.id, 0)
                if victim is sequence:
                    break
            if sequence.request.id in alive:
                free -= need
                budget -= tokens
                needs[sequence.request.id] = need
                pieces[sequence.request.id] = Piece(sequence, tokens)
        computing = tuple(piece for piece in pieces.values() if piece.sequence.anchor == NOT_DECODING)
        return Plan(len(pieces) > len(computing), computing, (), tuple(victims), repeats=1)

    def _victim(self, state: ServerState, alive: dict[int, None]) -> Sequence:
        latest_first = (state.running[number] for number in reversed(alive))
        able = (sequence for sequence in latest_first if _can_run(sequence, state))
        return next(able) if self.victim is None else max(able, key=self.victim)


def _can_run(sequence: Sequence, state: ServerState) -> bool:
    """Not one whose last token is being computed while this step is planned."""
    return sequence.anchor != NOT_DECODING or sequence.request.id in state.prefilling
