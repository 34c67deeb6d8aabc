"""What a person's verdicts on local answers teach: a new line from the shipped log-odds to a probability.

Pure: labels in, a Calibration out. Where verdicts are kept, and which act is one (redone in the cloud,
thumbs), is others' business. A few verdicts change nothing, and many change it gradually.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from router.confidence import Calibration, log_odds, probability

LEAST_LABELS, LEAST_OF_EACH = 30, 5  # below, a line through them says more of chance than of the model
HELD_BACK = 4.0  # how strongly the line is held at slope 1, offset 0, in labels
STEPS, SMALLEST_STEP = 30, 1e-6


@dataclass(frozen=True, slots=True)
class Label:
    """``p_wrong`` as it was judged by the shipped weights, before any calibration, and what a person said."""

    p_wrong: float
    wrong: bool


def recalibrated(labels: Sequence[Label]) -> Calibration:
    """Platt scaling on top of the shipped weights, by Newton's method; the identity below LEAST_LABELS."""
    wrong = sum(label.wrong for label in labels)
    if len(labels) < LEAST_LABELS or min(wrong, len(labels) - wrong) < LEAST_OF_EACH:
        return Calibration()
    points = [(log_odds(label.p_wrong), float(label.wrong)) for label in labels]
    slope, offset = 1.0, 0.0
    for _ in range(STEPS):
        slope, offset = _nearer(points, slope, offset)
    # A falling line would call sure what the scores call doubtful: then they say nothing.
    return Calibration(max(0.0, slope), offset, len(labels))


Points = Sequence[tuple[float, float]]


def _nearer(points: Points, slope: float, offset: float) -> tuple[float, float]:
    """One step of Newton's method, halved until it leads down: whole ones can run away."""
    by_slope, by_offset = _newton(points, slope, offset)
    before, share = _loss(points, slope, offset), 1.0
    while share > SMALLEST_STEP:
        tried = slope - share * by_slope, offset - share * by_offset
        if _loss(points, *tried) < before:
            return tried
        share /= 2
    return slope, offset


def _loss(points: Points, slope: float, offset: float) -> float:
    """Surprise at the labels, and what holds the line back; convex."""
    surprise = sum(_softplus((1 - 2 * wrong) * (slope * x + offset)) for x, wrong in points)
    return surprise + HELD_BACK / 2 * ((slope - 1) ** 2 + offset**2)


def _softplus(x: float) -> float:
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _newton(points: Points, slope: float, offset: float) -> tuple[float, float]:
    """What to take from slope and offset."""
    g_slope, g_offset = HELD_BACK * (slope - 1), HELD_BACK * offset
    h_ss, h_so, h_oo = HELD_BACK, 0.0, HELD_BACK
    for x, wrong in points:
        p = probability(slope * x + offset)
        g_slope += (p - wrong) * x
        g_offset += p - wrong
        h_ss += p * (1 - p) * x * x
        h_so += p * (1 - p) * x
        h_oo += p * (1 - p)
    determinant = h_ss * h_oo - h_so * h_so
    by_slope = (h_oo * g_slope - h_so * g_offset) / determinant
    by_offset = (h_ss * g_offset - h_so * g_slope) / determinant
    return by_slope, by_offset
