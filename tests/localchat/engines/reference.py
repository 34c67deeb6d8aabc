"""Straightforward float64 versions of what the engine computes fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from router.request import Sampling, TokenScore

Row = npt.NDArray[np.float64]


def softmax(values: Row) -> Row:
    weights = np.exp(values - values.max())
    share: Row = weights / weights.sum()
    return share


def candidates(logits: Sequence[float], s: Sampling) -> list[int]:
    """Tokens left after top-k, top-p and min-p, best first, the lower id first among equals."""
    row = np.array(logits, np.float64)
    kept = np.argsort(-row, kind="stable")[: s.top_k or None]
    if s.top_p < 1.0:
        share = np.cumsum(softmax(row[kept]))
        kept = kept[: int(np.argmax(share >= s.top_p)) + 1] if (share >= s.top_p).any() else kept
    if s.min_p > 0.0:
        kept = kept[row[kept] >= row.max() + np.log(s.min_p)]
    return [int(token) for token in kept if np.isfinite(row[token])]


def distribution(logits: Sequence[float], s: Sampling) -> dict[int, float]:
    kept = candidates(logits, s)
    share = softmax(np.array(logits, np.float64)[kept] / s.temperature)
    return dict(zip(kept, share.tolist(), strict=True))


def on_an_edge(logits: Sequence[float], s: Sampling) -> bool:
    """Whether rounding alone decides which tokens are left."""
    row = np.sort(np.array(logits, np.float64))[::-1][: s.top_k or None]
    share = np.cumsum(softmax(row))
    near_p = bool((np.abs(share - s.top_p) < 1e-5).any()) and s.top_p < 1.0
    return near_p or (s.min_p > 0.0 and bool((np.abs(row - row[0] - np.log(s.min_p)) < 1e-5).any()))


def penalised(logits: Sequence[float], past: Sequence[int], s: Sampling) -> Row:
    row = np.array(logits, np.float64)
    for token, count in Counter(past[-64:]).items():
        row[token] = row[token] / s.repeat_penalty if row[token] > 0 else row[token] * s.repeat_penalty
        row[token] -= count * s.frequency_penalty + s.presence_penalty
    return row


def score(logits: Sequence[float], token: int) -> TokenScore:
    row = np.array(logits, np.float64)
    share = softmax(row)
    some = share[share > 0]
    best, second = np.sort(row)[::-1][:2]
    return TokenScore(
        float(row[token] - row.max() - np.log(np.exp(row - row.max()).sum())),
        float(best - second),
        float(-(some * np.log(some)).sum()),
    )
