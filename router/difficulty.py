"""How likely the cloud's answer is better than this machine's, read off the question alone.

Owns the weights (difficulty.npy and .json, written by benchmarks/train_difficulty.py) and how they
are joined. Pure. Does not know which route is taken at what probability, nor which models there are.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files

import numpy as np
import numpy.typing as npt

from router.question import BUCKETS, HAND, SIZE, Features, Form, features

FORMS: tuple[Form, ...] = ("plain", "options", "quantities")
"""Rows of the weights: "plain" was fitted to what people type, the others to exam questions of their form."""


@dataclass(frozen=True, slots=True)
class Scorer:
    """One row of ``weights`` a form: those of the n-grams, of the counts, and a constant.

    What people type tells hard from easy; among exam questions the form's own weights tell how much a strong
    model adds. To these the plain score is added, at most ``cap``: a story with numbers may be an easy one.
    Where options are given it is taken as ``cap``, since plain prompts have none to learn from.
    ``slope`` and ``offset`` make a probability of it.
    """

    weights: npt.NDArray[np.float32]
    cap: float
    slope: float
    offset: float

    def probability(self, text: str) -> float:
        """Of the cloud's answer being better; "" gives what is known of no question."""
        line = self.slope * self.score(features(text)) + self.offset
        return 1 / (1 + math.exp(-min(30.0, max(-30.0, line))))

    def score(self, asked: Features) -> float:
        plain = self._along(0, asked)
        if asked.form == "plain":
            return plain
        held = self.cap if asked.form == "options" else min(plain, self.cap)
        return held + self._along(FORMS.index(asked.form), asked)

    def _along(self, row: int, asked: Features) -> float:
        weights = self.weights[row]
        ngrams = weights[asked.buckets].dot(asked.values)
        return float(ngrams + weights[BUCKETS:SIZE].dot(asked.counts) + weights[SIZE])


def difficulty(text: str) -> float:
    """P(the cloud's answer is better) by the shipped weights."""
    return shipped().probability(text)


@cache
def shipped() -> Scorer:
    """Raises ValueError where the weights are not those of these features: the package is damaged."""
    folder = files("router")
    with as_file(folder.joinpath("difficulty.npy")) as file:
        weights = np.load(file, allow_pickle=False).astype(np.float32)
    told = json.loads(folder.joinpath("difficulty.json").read_text(encoding="utf-8"))
    if weights.shape != (len(FORMS), SIZE + 1) or told["counts"] != list(HAND):
        raise ValueError("router/difficulty.npy does not fit router/question.py: train it again")
    return Scorer(weights, told["cap"], told["slope"], told["offset"])
