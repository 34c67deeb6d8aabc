"""Request-level dynamic batching of generation: a batch is sent by a rule, and ends as a whole.

Owns when the next batch is formed: after the last has ended, by ``rule`` (preferred sizes, queue
delay). Members that ended stay in it as padding, as in ``static``, which sends whatever is there.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.simcloud.dynamic.rule import BatchRule
from router.simcloud.scheduler import IDLE, Admission, Piece, Plan
from router.simcloud.state import OrderKey, ServerState


@dataclass(frozen=True, slots=True)
class RequestLevel:
    rule: BatchRule
    order: OrderKey | None = None
    lookahead: int = 0
    pads: bool = True
    name: str = "triton"

    def plan(self, state: ServerState) -> Plan:
        if state.running:
            return Plan(decode=True)
        if not state.waiting:
            return IDLE
        oldest_s = min(sequence.request.arrived_s for sequence in state.waiting)
        size = self.rule.size(len(state.waiting), state.now_s - oldest_s)
        if not size:
            return Plan(decode=False, waits_until_s=oldest_s + self.rule.max_delay_s)
        admit = self._fitting(state, size)
        pieces = tuple(Piece(entry.sequence, entry.sequence.target) for entry in admit)
        return Plan(False, pieces, tuple(admit))

    def _fitting(self, state: ServerState, size: int) -> list[Admission]:
        """The first ``size`` of the queue, or as many as there is memory for up to their bounds."""
        free = state.kv.free
        admit: list[Admission] = []
        for sequence in state.waiting:
            bound = sequence.request.bound_tokens
            free -= state.kv.blocks_for(bound)
            if len(admit) == size or free < 0:
                break
            admit.append(Admission(sequence, reserve=bound))
        return admit
