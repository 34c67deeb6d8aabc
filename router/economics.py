"""What routing saves: the arithmetic. Pure, and exact where fractions go in."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Saving:
    """``mean_cost`` of a query, where one by the dear model costs 1; ``saved`` is the rest of that 1."""

    local_share: Fraction
    cost_ratio: Fraction

    @property
    def mean_cost(self) -> Fraction:
        return self.local_share / self.cost_ratio + (1 - self.local_share)

    @property
    def saved(self) -> Fraction:
        return 1 - self.mean_cost


def own_saving(spent_usd: float, avoided_usd: float) -> float | None:
    """The share of what all answers would have cost by the cloud that was not spent; None before any cost."""
    whole = spent_usd + avoided_usd
    return avoided_usd / whole if whole > 0 else None
