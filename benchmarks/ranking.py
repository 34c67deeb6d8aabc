"""How good a ranking of questions is for sending the first of them to a stronger model.

Pure arithmetic. ``gain`` of a question: what the strong model adds to its answer (1, 0 or -1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Truths = npt.NDArray[np.bool_]
CONFIDENCE = 0.9  # of the intervals


def recovered(scores: Array, gain: Array) -> Array:
    """Share of the gap recovered when the first 0, 1, ... n questions go; a tie counts as its mean."""
    _, group, size = np.unique(-scores, return_inverse=True, return_counts=True)
    mean = np.bincount(group, gain) / size
    curve: Array = np.concatenate([[0.0], np.cumsum(np.repeat(mean, size))])
    shares: Array = curve / gain.sum()
    return shares


def apgr(scores: Array, gain: Array) -> float:
    """Mean recovered gap over all shares: .5 for chance, RouteLLM's measure."""
    curve = recovered(scores, gain)
    return float((curve[:-1] + curve[1:]).mean() / 2)


def cpt(scores: Array, gain: Array, share: float = 0.5) -> float:
    """Per cent of the calls that recover ``share`` of the gap."""
    curve = recovered(scores, gain)
    return 100 * int(np.argmax(curve >= share)) / (len(curve) - 1)


def auroc(scores: Array, positive: Truths) -> float:
    """Probability that a positive scores above a negative, ties counting half."""
    _, rank, size = np.unique(scores, return_inverse=True, return_counts=True)
    middle = np.cumsum(size) - (size - 1) / 2
    yes = int(positive.sum())
    no = len(positive) - yes
    return float((middle[rank][positive].sum() - yes * (yes + 1) / 2) / (yes * no))


def interval(measure: Callable[[Array, Array], float], scores: Array, gain: Array) -> tuple[float, float]:
    """Bootstrap over questions, seeded."""
    random = np.random.default_rng(0)
    drawn = (random.integers(0, len(gain), len(gain)) for _ in range(500))
    values = [measure(scores[i], gain[i]) for i in drawn]
    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)
