"""Whether a cache pays: what its hits save against what its wrong answers cost.

Pure arithmetic. Rates are shares of all questions.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.errors import InvalidRequest


@dataclass(frozen=True, slots=True)
class Worth:
    """In US dollars over all calls. ``most_wrong_rate`` is where savings and losses are equal."""

    saved_usd: float
    lost_usd: float
    most_wrong_rate: float

    @property
    def net_usd(self) -> float:
        return self.saved_usd - self.lost_usd

    @property
    def pays(self) -> bool:
        return self.net_usd > 0


def worth(
    *, calls: int, hit_rate: float, wrong_rate: float, call_cost_usd: float, wrong_cost_usd: float
) -> Worth:
    """A wrong answer is a hit as well, so ``wrong_rate`` is at most ``hit_rate``. Raises InvalidRequest."""
    if not 0 <= wrong_rate <= hit_rate <= 1:
        raise InvalidRequest(
            f"Of all questions, {wrong_rate:g} are wrong and {hit_rate:g} are hits.",
            "Give rates from 0 to 1; wrong answers are among the hits.",
        )
    if calls < 0 or call_cost_usd < 0 or wrong_cost_usd < 0:
        raise InvalidRequest("Calls and costs cannot be negative.", "Give what a call and a mistake cost.")
    saved_per_call = hit_rate * call_cost_usd
    most_wrong = min(hit_rate, saved_per_call / wrong_cost_usd) if wrong_cost_usd else hit_rate
    return Worth(calls * saved_per_call, calls * wrong_rate * wrong_cost_usd, most_wrong)
