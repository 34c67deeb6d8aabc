"""What may be added to any engine: work of the host, masks of a grammar, speculation.

Owns the order in which they enclose a step's cost. Schedulers know none of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from router.simcloud.host import HostedCost, HostWork
from router.simcloud.speculation import Speculation, SpeculativeCost, SpeculativeGroup
from router.simcloud.state import DecodeGroup
from router.simcloud.step_cost import StepCost, Work


@dataclass(frozen=True, slots=True)
class Additions:
    """``draft`` names the model that proposes; None costs nothing (n-grams of the prompt)."""

    host: HostWork | None = None
    masks: HostWork | None = None
    speculation: Speculation | None = None
    draft: str | None = None


@dataclass(frozen=True, slots=True)
class Equipped:
    """What an engine is built with then."""

    cost: StepCost
    lag_s: Callable[[Work], float] | None
    decoding: DecodeGroup


NONE = Additions()


def equip(additions: Additions, cost: StepCost, draft: StepCost | None, block_tokens: int) -> Equipped:
    lag_s = None
    speculation = additions.speculation
    if speculation is not None:
        cost = SpeculativeCost(cost, draft, speculation.drafts)
    if additions.masks is not None:
        positions = 1 if speculation is None else speculation.drafts + 1
        each_s = additions.masks.per_sequence_s * positions
        cost = HostedCost(cost, replace(additions.masks, per_sequence_s=each_s))
    if additions.host is not None:
        cost = hosted = HostedCost(cost, additions.host)
        lag_s = hosted.lag_s
    decoding = (
        DecodeGroup(block_tokens) if speculation is None else SpeculativeGroup(block_tokens, speculation)
    )
    return Equipped(cost, lag_s, decoding)
