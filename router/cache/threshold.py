"""From which similarity on a stored answer may be served, so that few of the hits are wrong.

Pure arithmetic. Owns the bound (Clopper-Pearson), the scan over a sample of hits whose
correctness is known, and the test whether later verdicts contradict the promise. Does not
know where a sample comes from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

EPSILON = 0.02  # at most this share of hits is wrong ...
ETA = 0.1  # ... with this much doubt about the sample
BEGIN_SHARE = 0.2  # of the sample lies above the first threshold that is tried
STEPS = 1000  # a threshold is a multiple of 1/1000
ALPHA = 0.05  # how seldom a promise that holds is taken for broken


@dataclass(frozen=True, slots=True)
class Sample:
    """One possible hit: how similar, and whether its answer would have been right."""

    similarity: float
    correct: bool


@dataclass(frozen=True, slots=True)
class Promise:
    """``threshold`` None: no paraphrase is served, for the reason ``why_off``.

    At most ``epsilon`` of hits are wrong, with confidence 1 - ``eta``: ``wrong`` of ``hits``
    in the sample, so at most ``bound``.
    """

    threshold: float | None
    hits: int
    wrong: int
    epsilon: float
    eta: float
    why_off: str = ""

    @property
    def bound(self) -> float:
        return upper_bound(self.wrong, self.hits, self.eta)


def upper_bound(wrong: int, hits: int, eta: float = ETA) -> float:
    """The share of wrong hits that is exceeded with probability ``eta`` at most: Clopper-Pearson."""
    if wrong >= hits:
        return 1.0
    return _beta_quantile(1 - eta, wrong + 1, hits - wrong)


def hits_needed(epsilon: float = EPSILON, eta: float = ETA, wrong: int = 0) -> int:
    """The smallest sample with ``wrong`` errors that can promise ``epsilon``."""
    hits = wrong + 1
    while not _holds(wrong, hits, epsilon, eta):
        hits += 1
    return hits


def promise(samples: Iterable[Sample], epsilon: float = EPSILON, eta: float = ETA) -> Promise:
    """The lowest threshold found by scanning downwards and stopping at the first failure.

    The scan begins where enough hits lie above for the bound to hold without an error, and
    at least a fifth of the sample: among the nearest few, one wrong label would decide. Where
    it begins depends on how many hits there are and never on which are right, and the steps
    are fixed beforehand: so testing one after another needs no correction.
    """
    steps: dict[int, list[bool]] = {}
    for sample in samples:
        steps.setdefault(math.floor(sample.similarity * STEPS + 1e-6), []).append(sample.correct)
    total = sum(len(step) for step in steps.values())
    needed = max(hits_needed(epsilon, eta), math.ceil(BEGIN_SHARE * total))
    hits = wrong = 0
    best: Promise | None = None
    for step in sorted(steps, reverse=True):
        hits += len(steps[step])
        wrong += steps[step].count(False)
        if hits >= needed and not _holds(wrong, hits, epsilon, eta):
            return best or _broken(hits, wrong, epsilon, eta)
        if hits >= needed:
            best = Promise(step / STEPS, hits, wrong, epsilon, eta)
    return best or Promise(None, hits, wrong, epsilon, eta, _too_few(hits, hits_needed(epsilon, eta)))


def _holds(wrong: int, hits: int, epsilon: float, eta: float) -> bool:
    """Whether the upper bound is at most ``epsilon``, without computing it."""
    return wrong < hits and beta_cdf(epsilon, wrong + 1, hits - wrong) >= 1 - eta


def _too_few(hits: int, needed: int) -> str:
    return f"the sample has {hits} hits, and {needed} without an error are the fewest that can promise it"


def _broken(hits: int, wrong: int, epsilon: float, eta: float) -> Promise:
    why = f"{wrong} of the {hits} most similar hits in the sample are wrong: no threshold keeps the promise"
    return Promise(None, hits, wrong, epsilon, eta, why)


def contradicts(wrong: int, hits: int, epsilon: float = EPSILON, alpha: float = ALPHA) -> bool:
    """Whether ``wrong`` of ``hits`` refute an error of at most ``epsilon``, whenever one looks.

    The evidence is the likelihood of the record averaged over all larger errors, over the
    largest likelihood that the promise allows. Under the promise it exceeds 1/alpha with
    probability alpha at most, however often it is looked at (Ville's inequality).
    """
    if hits == 0 or wrong <= epsilon * hits:
        return False
    right = hits - wrong
    above = 1 - beta_cdf(epsilon, wrong + 1, right + 1)
    if above <= 0:
        return False
    averaged = math.log(above) + _log_beta(wrong + 1, right + 1) - math.log1p(-epsilon)
    promised = wrong * math.log(epsilon) + right * math.log1p(-epsilon)
    return averaged - promised >= -math.log(alpha)


def recalibrated(
    shipped: Sequence[Sample], own: Sequence[Sample], epsilon: float = EPSILON, eta: float = ETA
) -> Promise:
    """The user's own verdicts take over once they can carry the promise alone; until then they join in."""
    if len(own) >= hits_needed(epsilon, eta):
        return promise(own, epsilon, eta)
    return promise([*shipped, *own], epsilon, eta)


# The regularised incomplete beta function, by its continued fraction (Numerical Recipes, 6.4).


def beta_cdf(x: float, a: float, b: float) -> float:
    """P(X <= x) for X ~ Beta(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b))
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast; elsewhere by symmetry
        return front * _fraction(x, a, b) / a
    return 1 - front * _fraction(1 - x, b, a) / b


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _fraction(x: float, a: float, b: float) -> float:
    tiny, accuracy = 1e-300, 1e-15
    c, d = 1.0, 1.0 / (1 - (a + b) * x / (a + 1) or tiny)
    value = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / (1 + term * d or tiny)
            c = 1 + term / c or tiny
            step = c * d
            value *= step
        if abs(step - 1) < accuracy:
            break
    return value


def _beta_quantile(p: float, a: float, b: float) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):  # halving 60 times is finer than a float near 1
        middle = (low + high) / 2
        if beta_cdf(middle, a, b) < p:
            low = middle
        else:
            high = middle
    return high
