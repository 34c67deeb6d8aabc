"""Static batching: a batch is formed, runs until its longest member ends, and only then the next.

Owns that one rule. Members that ended stay in the batch and are computed as padding.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.simcloud.scheduler import IDLE, Admission, Piece, Plan
from router.simcloud.state import OrderKey, ServerState


@dataclass(frozen=True, slots=True)
class Static:
    """``max_sequences`` of the queue as they stand; memory for each up to its bound."""

    max_sequences: int = 8
    order: OrderKey | None = None
    lookahead: int = 0
    pads: bool = True
    name: str = "static"

    def plan(self, state: ServerState) -> Plan:
        if state.running:
            return Plan(decode=True)
        free = state.kv.free
        admit: list[Admission] = []
        for sequence in state.waiting:
            blocks = state.kv.blocks_for(sequence.request.bound_tokens)
            if len(admit) == self.max_sequences or blocks > free:
                break
            free -= blocks
            admit.append(Admission(sequence, reserve=sequence.request.bound_tokens))
        if not admit:
            return IDLE
        pieces = tuple(Piece(entry.sequence, entry.sequence.target) for entry in admit)
        return Plan(False, pieces, tuple(admit))
