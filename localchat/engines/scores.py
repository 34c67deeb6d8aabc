"""How sure the model was of a token, read from the raw logits row.

On the token path: 50 microseconds for 49,000 logits, so the arrays are made once.
"""

from __future__ import annotations

import math

import numpy as np

from localchat.engines.runtime import Logits
from router.request import TokenScore


class Scorer:
    """Scores tokens of one vocabulary."""

    def __init__(self, vocabulary_size: int) -> None:
        self._shifted = np.empty(vocabulary_size, np.float32)
        self._weights = np.empty(vocabulary_size, np.float32)
        self._ones = np.ones(vocabulary_size, np.float32)
        self._top = 0.0
        self._margin = self._log_total = self._entropy = 0.0

    def read(self, logits: Logits) -> int:
        """Take in the row before anything changes it; returns its argmax.

        With s the logits less their maximum and Z = sum(exp(s)):
        log p(token) = s[token] - log Z, entropy = log Z - sum(exp(s) * s) / Z.
        """
        best = int(logits.argmax())
        top = logits[best]
        shifted, weights = self._shifted, self._weights
        np.subtract(logits, top, out=shifted)
        np.exp(shifted, out=weights)
        total = float(weights.dot(self._ones))  # a third of the time of sum()
        self._log_total = math.log(total)
        self._entropy = self._log_total - _finite_dot(weights, shifted) / total
        shifted[best] = -np.inf
        self._margin = -float(shifted.max())
        shifted[best] = 0.0
        return best

    def score(self, token: int, forced: bool = False) -> TokenScore:
        """Of ``token`` in the row last read."""
        logprob = float(self._shifted[token]) - self._log_total
        return TokenScore(logprob, self._margin, max(0.0, self._entropy), forced)


def _finite_dot(weights: Logits, shifted: Logits) -> float:
    value = float(weights.dot(shifted))
    # Some models mask tokens with -inf: 0 * -inf counts as 0 in an entropy.
    return value if math.isfinite(value) else float(weights @ np.nan_to_num(shifted, neginf=0.0))
