"""What another policy would have done with the answers on record. Pure and deterministic.

Seconds and money of a route are what was estimated before the answer; of the route that was taken, its
cost is what was paid. What is not on record is counted as unknown, never as 0. An answer that had to
stay on the machine stays under every policy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from router.decision import Estimate, Route
from router.errors import InvalidRequest
from router.ledger import Entry

POLICIES = "recorded, local, cloud, difficulty>=X, length>=TOKENS"
_RULE = re.compile(r"(difficulty|length)\s*>=\s*([0-9]*\.?[0-9]+)")

Choose = Callable[[Entry], Route | None]
"""None where the record does not hold what the policy goes by."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """``fixed`` had to stay here; ``undecided`` stay because nobody knows their difficulty or length."""

    policy: str
    answers: int = 0
    to_cloud: int = 0
    fixed: int = 0
    undecided: int = 0
    cost_usd: float = 0.0
    cost_unknown: int = 0
    seconds: float = 0.0
    seconds_unknown: int = 0

    @property
    def cloud_share(self) -> float | None:
        return self.to_cloud / self.answers if self.answers else None


def parse_policy(text: str) -> Choose:
    """Raises InvalidRequest for one that is not known."""
    match text.strip():
        case "recorded":
            return _taken
        case "local" | "cloud" as route:
            fixed: Route = "cloud" if route == "cloud" else "local"
            return lambda entry: fixed
    rule = _RULE.fullmatch(text.strip())
    if rule is None:
        raise InvalidRequest(f"There is no policy {text!r}.", f"Known are {POLICIES}.")
    name, bound = rule[1], float(rule[2])
    return lambda entry: _by_bound(_difficulty(entry) if name == "difficulty" else _length(entry), bound)


def replay(policy: str, entries: Iterable[Entry]) -> Replayed:
    choose = parse_policy(policy)
    counts = Replayed(policy.strip())
    for entry in entries:
        counts = _with(counts, entry, choose(entry))
    return counts


def _with(so_far: Replayed, entry: Entry, chosen: Route | None) -> Replayed:
    stays = must_stay(entry)
    route: Route = "local" if stays or chosen is None else chosen
    cost, seconds = _cost(entry, route), _seconds(entry, route)
    return Replayed(
        so_far.policy,
        so_far.answers + 1,
        so_far.to_cloud + (route == "cloud"),
        so_far.fixed + stays,
        so_far.undecided + (chosen is None and not stays),
        so_far.cost_usd + (cost or 0.0),
        so_far.cost_unknown + (cost is None),
        so_far.seconds + (seconds or 0.0),
        so_far.seconds_unknown + (seconds is None),
    )


def must_stay(entry: Entry) -> bool:
    return entry.mode == "local" or entry.privacy_action in ("kept local", "refused")


def _taken(entry: Entry) -> Route:
    return "cloud" if entry.answered_by == "cloud" else "local"


def _by_bound(value: float | None, bound: float) -> Route | None:
    return None if value is None else "cloud" if value >= bound else "local"


def _difficulty(entry: Entry) -> float | None:
    return entry.difficulty


def _length(entry: Entry) -> float | None:
    return entry.usage.prompt_tokens if entry.usage else None


def _estimate(entry: Entry, route: Route) -> Estimate | None:
    known = [entry.expected, *(other.estimate for other in entry.alternatives)]
    return next((each for each in known if each and each.route == route), None)


def _cost(entry: Entry, route: Route) -> float | None:
    if route == "local":
        return 0.0
    if entry.answered_by == "cloud":
        return entry.cost_usd
    if entry.avoided_usd is not None:
        return entry.avoided_usd
    estimate = _estimate(entry, "cloud")
    return estimate.cost_usd if estimate else None


def _seconds(entry: Entry, route: Route) -> float | None:
    estimate = _estimate(entry, route)
    return estimate.total_s if estimate else None
