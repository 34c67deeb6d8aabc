"""What a plan does to sequences and blocks: who leaves, who enters, whose prompt grows, who decodes.

Owns the way of a sequence between queue, prompt and decoding, and what its KV costs to move. Times of
steps and their order are the engine's.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from router.simcloud.metrics import Recorder
from router.simcloud.sampling import Families
from router.simcloud.scheduler import Admission, Piece
from router.simcloud.state import Sequence, ServerState
from router.simcloud.swap import Swap


@dataclass(slots=True)
class Step:
    """A step that is planned or runs; ``first`` get a first or next token from a prompt at its end."""

    seconds: float
    sequences: int
    decodes: int
    waits: int = 0  # sequences between two tokens that this step leaves out
    lag_s: float = 0.0  # after its end until its tokens are out
    first: list[Sequence] = field(default_factory=list)
    ends: list[Sequence] = field(default_factory=list)
    watched: list[Sequence] = field(default_factory=list)  # of those that decode: whose tokens are told


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """``lengths``: true ones, of those inside; nothing that schedules reads them."""

    _state: ServerState
    _recorder: Recorder
    _families: Families
    _lengths: dict[int, int]
    _swap: Swap | None = None

    def preempt(self, victim: Sequence) -> float:
        """Returns the seconds its KV takes to leave, if it is kept."""
        state = self._state
        decoding = victim.request.id not in state.prefilling
        if decoding:
            state.decoding.leave(victim)
        else:
            del state.prefilling[victim.request.id]
        state.kv.release(victim, comes_back=True)
        if state.adapters is not None:
            state.adapters.leave(state.kv, victim.request)
        del state.running[victim.request.id]
        victim.swapped = victim.computed if self._swap else 0
        victim.computed = 0
        victim.preemptions += 1
        state.waiting.put_back(victim)
        self._recorder.preempted(decoding)
        return self._swap.seconds(victim.swapped) if self._swap else 0.0

    def admit(self, admission: Admission, now_s: float) -> float:
        """Returns the seconds its KV takes to come back, if it was kept."""
        sequence, state = admission.sequence, self._state
        state.waiting.remove(sequence)
        state.running[sequence.request.id] = state.prefilling[sequence.request.id] = sequence
        cached = min(admission.cached, state.kv.cached_blocks(sequence))
        state.kv.begin(sequence, cached)
        if admission.reserve:
            state.kv.grow(sequence, admission.reserve)
            sequence.reserved = True
        found = cached * state.kv.block_tokens
        sequence.computed = max(found, sequence.swapped)
        moved = max(0, sequence.swapped - found)
        sequence.swapped = 0
        if sequence.admitted_s < 0:
            sequence.admitted_s = now_s
            sequence.cached_tokens = sequence.computed
            self._recorder.admitted(sequence.target, sequence.computed)
        return self._swap.seconds(moved) if self._swap and moved else 0.0

    def bring_adapter(self, admission: Admission) -> float:
        adapters = self._state.adapters
        return adapters.enter(self._state.kv, admission.sequence.request) if adapters else 0.0

    def compute(self, piece: Piece, step: Step) -> None:
        sequence, state = piece.sequence, self._state
        sequence.computed += piece.tokens
        state.kv.grow(sequence, sequence.computed)
        if sequence.computed < sequence.target:
            return
        del state.prefilling[sequence.request.id]
        sequence.generated += 1
        step.first.append(sequence)
        if not self._families.grows(sequence):
            self._go_on(sequence, step)

    def _go_on(self, sequence: Sequence, step: Step) -> None:
        left = self._lengths[sequence.request.id] - sequence.generated
        if left > 0:
            self._state.decoding.join(sequence, left)
        else:
            step.ends.append(sequence)

    def fork(self, sequence: Sequence, step: Step) -> None:
        """Its samples go on from here, each with a last block of its own."""
        state = self._state
        members = self._families.split(state, sequence, self._lengths)
        step.first += members[1:]
        for member in members[1:]:
            if state.adapters is not None:
                state.adapters.enter(state.kv, member.request)
        for member in members:
            ends = self._lengths[member.request.id] == member.generated
            if ends or self._families.write(state, member):
                self._go_on(member, step)
            else:
                state.prefilling[member.request.id] = member
                self.preempt(member)
