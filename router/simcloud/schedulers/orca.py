"""Orca: the batch is formed anew for every iteration; memory up to the bound is taken at admission.

Owns iteration-level batching with whole prompts, which run in one step with those that decode
(selective batching). Nobody is ever preempted.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.simcloud.admission import Gate, Reserve
from router.simcloud.scheduler import Admission, Piece, Plan
from router.simcloud.state import OrderKey, ServerState

RESERVE = Reserve()


@dataclass(frozen=True, slots=True)
class Orca:
    max_sequences: int = 256
    order: OrderKey | None = None
    gate: Gate = RESERVE
    lookahead: int = 0
    pads: bool = False
    name: str = "orca"

    def plan(self, state: ServerState) -> Plan:
        free = state.kv.free
        admit: list[Admission] = []
        for sequence in state.waiting:
            if len(state.running) + len(admit) == self.max_sequences:
                break
            blocks = state.kv.blocks_for(sequence.request.bound_tokens)
            if not self.gate.admits(state, sequence, (), blocks, free):
                break
            free -= blocks
            admit.append(Admission(sequence, reserve=sequence.request.bound_tokens))
        pieces = tuple(Piece(entry.sequence, entry.sequence.target) for entry in admit)
        return Plan(state.decoding.count > 0, pieces, tuple(admit))
