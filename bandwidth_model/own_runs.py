"""What a model's own runs on a machine change about its predictions there.

Pure. Owns how a difference is shared out between the weights (with all fixed costs) and
attention. Does not know where runs are kept.

A run at a shallow depth says nothing of attention, one at a great depth much; and what is less
certain to begin with is corrected more. So both factors are sought together: those that explain
the runs with the least departure from 1, each departure weighed by how far off that part is for
models without runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log

ATTENTION_DEVIATION = 0.10  # of the logarithm, beside what weights and attention share (bench_calibrated.py)
RUN_DEVIATION = 0.06  # of the logarithm of one run's seconds
STEPS = 6  # of Newton's method; the third hardly changes anything


@dataclass(frozen=True, slots=True)
class OwnRun:
    """``rest_s`` and ``attention_s`` were predicted of a token; the median of ``runs`` was ``token_s``."""

    rest_s: float
    attention_s: float
    token_s: float
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Factors:
    """What predicted seconds are to be multiplied with."""

    rest: float = 1.0
    attention: float = 1.0


def factors(own: Iterable[OwnRun], deviation: float) -> Factors:
    """The most likely ones, where predictions without runs are off by ``deviation`` (of the logarithm)."""
    runs = list(own)
    both, apart = deviation**2, ATTENTION_DEVIATION**2
    # In the coordinates (common, attention's own) the departures are independent of each other.
    common = alone = 0.0
    for _ in range(STEPS):
        a11, a12, a22 = 1 / both, 0.0, 1 / apart
        b1, b2 = -common / both, -alone / apart
        for run in runs:
            rest, attention = run.rest_s * exp(common), run.attention_s * exp(common + alone)
            share, weight = attention / (rest + attention), run.runs / RUN_DEVIATION**2
            missing = log(run.token_s / (rest + attention))
            a11, a12, a22 = a11 + weight, a12 + weight * share, a22 + weight * share**2
            b1, b2 = b1 + weight * missing, b2 + weight * share * missing
        determinant = a11 * a22 - a12**2
        common += (b1 * a22 - b2 * a12) / determinant
        alone += (b2 * a11 - b1 * a12) / determinant
    return Factors(exp(common), exp(common + alone))
