"""What a person's verdicts on local answers teach: a new line from the shipped log-odds to a probability.

Pure: labels in, a Calibration out. Where verdicts are kept, and which act is one (redone in the cloud,
thumbs), is others' business. A few verdicts change nothing, and many change it gradually.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from router.confidence import Calibration, log_odds, probability

LEAST_LABELS, LEAST_OF_EACH = 30, 5  # below, a line through them says more of chance than of the model
HELD_BACK = 4.0  # how strongly the line is held at slope 1, offset 0, in labels
STEPS = 30


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
        slope, offset = _newton(points, slope, offset)
    # A falling line would call sure what the scores call doubtful: then they say nothing.
    return Calibration(max(0.0, slope), offset, len(labels))


def _newton(points: Sequence[tuple[float, float]], slope: float, offset: float) -> tuple[float, float]:
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
    slope -= (h_oo * g_slope - h_so * g_offset) / determinant
    offset -= (h_ss * g_offset - h_so * g_slope) / determinant
    return slope, offset
