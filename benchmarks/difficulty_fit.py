"""How the weights of router/difficulty.py are fitted: one ridge regression a form of question.

Owns the arithmetic and nothing of files. The target is the gain itself (+1: only the strong model was right,
-1: only the weak one, 0: no difference). On the 800 questions of GSM8K that ranks better than a logistic
regression on "strong is better" (APGR .65 against .63): that the weak model alone was right counts too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from router.difficulty import FORMS, Scorer
from router.question import BUCKETS, SIZE, Form, features

Array = npt.NDArray[np.float64]
Select = npt.NDArray[np.int64]

RIDGE: dict[Form, float] = {"plain": 1.0, "options": 5.0, "quantities": 2.0}
"""From .3, 1, 3, 5, 10 by the 5-fold figures, which hardly move between neighbours."""
CAP = 0.45  # below nearly all plain scores of exam questions, above nearly all of easy prompts
EXAM_LEVEL = 0.25
"""Above the cap, for the average exam question: a model that fits a laptop fails most of them."""
HAND_SCALE = 0.1  # of a standardised count beside the n-grams, whose vector has length 1
MOST_STEPS, SMALLEST_RESIDUAL = 400, 1e-6


@dataclass(frozen=True, slots=True)
class Labelled:
    """Texts with what a strong model adds to each, from -1 to 1."""

    texts: Sequence[str]
    gain: Array

    def of(self, chosen: Select) -> Labelled:
        return Labelled([self.texts[i] for i in chosen], self.gain[chosen])


@dataclass(frozen=True, slots=True)
class Training:
    """What a scorer is fitted to: ordinary prompts, and exam questions, which are sorted by their form."""

    ordinary: Labelled
    exams: Labelled


def train(data: Training) -> Scorer:
    heads = {"plain": ridge(data.ordinary, RIDGE["plain"])}
    forms = np.array([features(text).form for text in data.exams.texts])
    for form in FORMS[1:]:
        heads[form] = _centred(data.exams.of(np.flatnonzero(forms == form)), RIDGE[form])
    weights = np.array([heads[form] for form in FORMS]).astype(np.float16)  # as they are stored
    slope, offset = platt(_unseen_scores(data.ordinary), data.ordinary.gain)
    return Scorer(weights.astype(np.float32), CAP, slope, offset)


def _centred(questions: Labelled, strength: float) -> Array:
    """Weights whose mean score is EXAM_LEVEL: the level recorded is that of other models than ours."""
    if not len(questions.gain):
        return np.zeros(SIZE + 1)
    weights = ridge(questions, strength)
    weights[SIZE] += EXAM_LEVEL - questions.gain.mean()
    return weights


def _unseen_scores(questions: Labelled) -> Array:
    """Each by weights that were fitted without it."""
    scores = np.zeros(len(questions.gain))
    for fitted, tested in folds(len(scores)):
        weights = ridge(questions.of(fitted), RIDGE["plain"])
        scores[tested] = Table.of(questions.of(tested).texts).times(weights)
    return scores


@dataclass(frozen=True, slots=True)
class Table:
    """Features of many texts: n-grams as sparse entries, counts as columns."""

    rows: Select
    buckets: Select
    values: Array
    counts: Array

    @classmethod
    def of(cls, texts: Sequence[str]) -> Table:
        found = [features(text) for text in texts]
        rows = np.repeat(np.arange(len(found)), [len(f.buckets) for f in found])
        values = np.concatenate([f.values for f in found]).astype(np.float64)
        return cls(
            rows,
            np.concatenate([f.buckets for f in found]),
            values,
            np.array([f.counts for f in found], float),
        )

    def times(self, weights: Array) -> Array:
        """One number a text; a constant after the SIZE weights is added."""
        products = self.values * weights[self.buckets]
        scores: Array = self.counts @ weights[BUCKETS:SIZE] + weights[SIZE:].sum()
        return scores + np.bincount(self.rows, products, len(self.counts))

    def transposed_times(self, row_values: Array) -> Array:
        ngrams = np.bincount(self.buckets, self.values * row_values[self.rows], BUCKETS)
        return np.concatenate([ngrams, self.counts.T @ row_values])


def ridge(questions: Labelled, strength: float) -> Array:
    """SIZE weights and a constant, which alone is not held back."""
    table, mean_gain = Table.of(questions.texts), questions.gain.mean()
    mean, spread = table.counts.mean(axis=0), table.counts.std(axis=0)
    scale = np.where(spread > 0, HAND_SCALE / np.where(spread > 0, spread, 1), 0.0)
    scaled = Table(table.rows, table.buckets, table.values, (table.counts - mean) * scale)
    shift = scaled.transposed_times(np.ones(len(questions.gain))) / len(questions.gain)  # mean of each column

    def squared(w: Array) -> Array:
        told: Array = scaled.times(w) - shift @ w
        image: Array = scaled.transposed_times(told) - shift * told.sum() + strength * w
        return image

    centred = questions.gain - mean_gain
    solved = _conjugate_gradient(squared, scaled.transposed_times(centred) - shift * centred.sum())
    constant = mean_gain - shift @ solved - mean @ (solved[BUCKETS:] * scale)
    return np.concatenate([solved[:BUCKETS], solved[BUCKETS:] * scale, [constant]])


def _conjugate_gradient(matrix: Callable[[Array], Array], right: Array) -> Array:
    """Solves matrix(x) = right for a symmetric positive one."""
    x, residual = np.zeros_like(right), right.copy()
    direction, size = residual.copy(), float(residual @ residual)
    target = size * SMALLEST_RESIDUAL**2
    for _ in range(MOST_STEPS):
        if size <= target:
            break
        image = matrix(direction)
        step = size / float(direction @ image)
        x += step * direction
        residual -= step * image
        before, size = size, float(residual @ residual)
        direction = residual + size / before * direction
    return x


def platt(scores: Array, better: Array) -> tuple[float, float]:
    """Slope and offset of the logistic curve from a score to a probability, by Newton's method."""
    line, penalty = np.zeros(2), np.diag([1e-2, 1e-6])  # else separable scores give an endless slope
    design = np.column_stack([scores, np.ones_like(scores)])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(design @ line, -30, 30)))
        gradient = design.T @ (p - better) + penalty @ line
        curve = (design * (p * (1 - p))[:, None]).T @ design + penalty
        line -= np.linalg.solve(curve, gradient)
    return float(line[0]), float(line[1])


def folds(count: int, parts: int = 5, seed: int = 0) -> list[tuple[Select, Select]]:
    """Pairs (fitted on, tested on)."""
    order = np.random.default_rng(seed).permutation(count)
    tested = [np.sort(order[part::parts]) for part in range(parts)]
    return [(np.setdiff1d(order, test), test) for test in tested]
