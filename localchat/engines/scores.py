"""How sure the model was of a token, read from the raw logits row.

On the token path: tens of microseconds for 49,000 logits, so the arrays are made once.
"""

from __future__ import annotations

import math

import numpy as np

from localchat.engines.runtime import Logits
from router.request import TokenScore

SAFE_LOGIT = 60.0
"""exp() of a float32 overflows at 88, and sums of 200,000 of them above 76; rows whose
largest logit lies within are not shifted first, which saves a pass over memory."""


class Scorer:
    """Scores tokens of one vocabulary."""

    def __init__(self, vocabulary_size: int) -> None:
        self._weights = np.empty(vocabulary_size, np.float32)
        self._ones = np.ones(vocabulary_size, np.float32)
        self._top = self._margin = self._log_total = self._entropy = 0.0

    def read(self, logits: Logits) -> int:
        """Take in the row before anything changes it; returns its argmax.

        With Z = sum(exp(logits)): log p(token) = logits[token] - log Z and
        entropy = log Z - sum(exp(logits) * logits) / Z.
        """
        best = int(logits.argmax())
        top = float(logits[best])
        row, base = (logits, 0.0) if abs(top) < SAFE_LOGIT else (logits - np.float32(top), top)
        weights = np.exp(row, out=self._weights)
        total = float(weights.dot(self._ones))  # half the time of sum()
        log_total = math.log(total)
        self._entropy = log_total - _finite_dot(weights, row) / total
        self._log_total = base + log_total
        logits[best] = -np.inf
        self._margin = top - float(logits.max())
        logits[best] = self._top = top
        return best

    def score(self, logit: float, forced: bool = False) -> TokenScore:
        """Of the token that had this raw ``logit`` in the row last read."""
        return TokenScore(logit - self._log_total, self._margin, max(0.0, self._entropy), forced)

    @property
    def top(self) -> float:
        """The largest logit of the row last read."""
        return self._top


def _finite_dot(weights: Logits, row: Logits) -> float:
    with np.errstate(invalid="ignore"):
        value = float(weights.dot(row))
    # Some models mask tokens with -inf: 0 * -inf counts as 0 in an entropy.
    return value if math.isfinite(value) else float(weights.dot(np.nan_to_num(row, neginf=0.0)))
