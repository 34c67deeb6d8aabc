"""What a scheduler decides for one step, and the Protocol of those who decide.

A scheduler is a function over ServerState: it changes nothing, the engine carries out its
Plan. It sees bounds and predictions of lengths, never the true ones.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from router.simcloud.kv import KvPool
from router.simcloud.state import OrderKey, Sequence, ServerState

UNTIL_CHANGE = 1 << 60


class Admission(NamedTuple):
    """``cached`` blocks of its beginning are held already; ``reserve`` tokens' blocks are taken at once."""

    sequence: Sequence
    cached: int = 0
    reserve: int = 0

    def start(self, kv: KvPool) -> int:
        """Tokens it need not compute: found in the cache, or brought back from outside."""
        return max(self.sequence.swapped, self.cached * kv.block_tokens)


class Piece(NamedTuple):
    """``tokens`` of a sequence's prompt (or of all it had, after preemption) to compute in this step."""

    sequence: Sequence
    tokens: int


class Plan(NamedTuple):
    """Carried out in this order: preempt, decode (all that can), admit, compute pieces.

    ``repeats``: a plan that only decodes would be made again that many steps in a row, unless a
    sequence ends or arrives or blocks run short. ``waits_until_s``: a plan that does nothing, though
    there is a queue, until that time or the next arrival.
    """

    decode: bool
    pieces: tuple[Piece, ...] = ()
    admit: tuple[Admission, ...] = ()
    preempt: tuple[Sequence, ...] = ()
    repeats: int = UNTIL_CHANGE
    waits_until_s: float | None = None


IDLE = Plan(decode=False)


class Scheduler(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def order(self) -> OrderKey | None:
        """The queue's order; None is that of arrival."""
        ...

    @property
    def lookahead(self) -> int:
        """Steps planned ahead of the one that runs: 1 where scheduling overlaps the GPU."""
        ...

    @property
    def pads(self) -> bool:
        """Whether sequences that ended stay in their batch as padding until all have ended."""
        ...

    def plan(self, state: ServerState) -> Plan: ...
