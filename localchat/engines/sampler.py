"""Which token comes next: penalties, top-k, top-p, min-p, temperature, in that order.

The order and meanings are llama.cpp's (common/sampling). Works on a numpy row of
logits, so that every runtime samples alike.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque

import numpy as np
import numpy.typing as npt

from localchat.engines.runtime import Logits
from router.request import Sampling

PENALTY_WINDOW = 64  # tokens looked back on, llama.cpp's default
FIRST_SPAN = 8.0  # nats below the maximum that nearly always hold the top 40


class Sampler:
    """Draws tokens for one answer. Same seed and logits, same tokens."""

    def __init__(self, sampling: Sampling) -> None:
        self._s = sampling
        seed = sampling.seed if sampling.seed is not None else random.SystemRandom().getrandbits(32)
        self._random = random.Random(seed)
        self._recent: deque[int] = deque(maxlen=PENALTY_WINDOW)
        self.penalises = sampling.repeat_penalty != 1.0 or bool(
            sampling.frequency_penalty or sampling.presence_penalty
        )

    def accept(self, token: int) -> None:
        self._recent.append(token)

    def penalise(self, logits: Logits) -> None:
        """Change ``logits`` in place for tokens of the recent past."""
        counts = Counter(self._recent)
        if not self.penalises or not counts:
            return
        s = self._s
        tokens = np.fromiter(counts.keys(), np.int64)
        seen = np.fromiter(counts.values(), np.float32)
        values = logits[tokens]
        values = np.where(values > 0, values / s.repeat_penalty, values * s.repeat_penalty)
        logits[tokens] = values - seen * s.frequency_penalty - s.presence_penalty

    def draw(self, logits: Logits) -> int:
        """A token; -inf logits are never drawn."""
        if self._s.temperature == 0.0:
            return int(logits.argmax())
        tokens, values = self._candidates(logits)
        values = values - values[0]
        weights = np.exp(values)
        kept = len(weights)
        if self._s.top_p < 1.0:
            share = np.cumsum(weights) / (weights.sum() if self._s.top_k else _total(logits))
            kept = int(np.searchsorted(share, self._s.top_p)) + 1
        if self._s.min_p > 0.0:
            kept = min(kept, int(np.searchsorted(-weights, -self._s.min_p, side="right")))
        cumulated = np.cumsum(np.exp(values[: max(1, kept)] / self._s.temperature))
        at = int(np.searchsorted(cumulated, self._random.random() * cumulated[-1], side="right"))
        return int(tokens[min(at, len(cumulated) - 1)])

    def _candidates(self, logits: Logits) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
        """Token ids and logits, best first: the top k, or all that can be drawn."""
        top = float(logits.max())
        k = min(self._s.top_k or len(logits), len(logits))
        span = FIRST_SPAN
        if not self._s.top_k and self._s.min_p > 0.0:
            span = -math.log(self._s.min_p) + 1e-3  # nothing below survives min-p
        while True:
            tokens = np.flatnonzero(logits >= top - span)
            enough = len(tokens) >= k or (not self._s.top_k and self._s.min_p > 0.0)
            if enough or span > 1e4:
                break
            span *= 4.0
        values = logits[tokens].astype(np.float64)
        order = np.argsort(-values, kind="stable")[:k]
        return tokens[order], values[order]


def _total(logits: Logits) -> float:
    """Of exp(logits - max) over the whole vocabulary."""
    return float(np.exp(logits - logits.max()).sum())
