"""What is decided and judged about an answer: the types that policy, judges and the ledger share.

Owns no rule. Who decides is :mod:`router.policy`; what a person sees of it are the
events :class:`router.request.Routed`, ``Judged``, ``Validated``, ``CacheHit`` and ``HandedOff``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Route = Literal["local", "cloud"]
Mode = Literal["local", "auto", "cloud"]
"""What a person wants: always here, whichever is better, always there."""


@dataclass(frozen=True, slots=True)
class Turn:
    """What a person wants of one request beside its words.

    ``conversation`` names the one it belongs to, "" for none: budgets and a steady route are
    kept by it. A ``pinned`` conversation never leaves this machine. ``fresh``: no stored answer.
    """

    mode: Mode = "local"
    conversation: str = ""
    pinned: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an answer by one route is expected to take; None where nobody knows.

    ``ttft_s`` and ``total_s`` run from sending; ``cost_usd`` is 0 on this machine. ``simulated``:
    nobody is really asked, times and money are those of a GPU that does not exist.
    """

    route: Route
    model: str
    ttft_s: float | None = None
    total_s: float | None = None
    cost_usd: float | None = None
    simulated: bool = False


@dataclass(frozen=True, slots=True)
class Alternative:
    """A route that was not taken, what it would have cost, and why it was not, in words."""

    estimate: Estimate
    why_not: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Which route was taken, by which model, and why, in words for a person.

    ``difficulty`` is the probability that the cloud's answer is better than this machine's;
    ``expected`` what this route is expected to take. ``refusal``, where it is not "": nothing may
    be sent anywhere, what ``route`` was asked for, and why not, with the next step.
    """

    route: Route
    model: str
    reasons: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    difficulty: float | None = None
    expected: Estimate | None = None
    refusal: str = ""

    def estimate_of(self, route: str) -> Estimate | None:
        """What was expected of ``route``, taken or not."""
        if self.expected and self.expected.route == route:
            return self.expected
        return next((o.estimate for o in self.alternatives if o.estimate.route == route), None)


@dataclass(frozen=True, slots=True)
class Confidence:
    """How far the beginning of a local answer is to be trusted, from ``tokens`` of its scores.

    ``p_wrong`` is calibrated; from ``threshold`` on the answer is handed off.
    ``rule_escalates`` is what the plain rule says: a mean token probability below 0.8.
    ``calibrated``: the weights were fitted to this model, or to a person's verdicts on it; else
    ``p_wrong`` is held nearer to one half.
    """

    p_wrong: float
    threshold: float
    tokens: int
    rule_escalates: bool
    calibrated: bool = True

    @property
    def is_low(self) -> bool:
        return self.p_wrong >= self.threshold


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one validator says of an answer; ``detail`` is one plain sentence, "" where it passed."""

    validator: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class CacheLabel:
    """What a person must know of an answer that comes from the cache.

    ``question`` is the one that was answered then; ``similarity`` and ``threshold`` are
    cosines (1.0 in the exact tier). ``entry`` names it to `localchat cache`.
    """

    tier: Literal["exact", "semantic"]
    entry: int
    question: str
    similarity: float
    threshold: float
    age_s: float
