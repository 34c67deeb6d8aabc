"""How sure the model was, against a plain float64 version."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localchat.engines.scores import Scorer
from router.request import TokenScore
from tests.localchat.engines import reference

spreads = st.sampled_from([0.0, 0.1, 1.0, 3.0, 20.0])
offsets = st.sampled_from([0.0, -59.9, 59.9, 60.1, -61.0, 88.0, 300.0, -5000.0, 1e4])


def assert_near(score: TokenScore, expected: TokenScore) -> None:
    for name in ("logprob", "margin", "entropy"):
        assert getattr(score, name) == pytest.approx(getattr(expected, name), abs=1e-3, rel=2e-7), name


def row_of(seed: int, size: int, spread: float, offset: float, forbidden: float) -> list[float]:
    random = np.random.default_rng(seed)
    row = (random.normal(0, spread, size) + offset).astype(np.float32)
    row[1:][random.random(size - 1) < forbidden] = -np.inf
    values: list[float] = row.tolist()
    return values


@given(
    st.integers(0, 10_000),
    st.integers(2, 2000),
    spreads,
    offsets,
    st.sampled_from([0.0, 0.3, 0.9]),
    st.integers(0, 1 << 20),
)
def test_scores_are_those_of_the_reference(
    seed: int, size: int, spread: float, offset: float, forbidden: float, pick: int
) -> None:
    logits = row_of(seed, size, spread, offset, forbidden)
    allowed = np.flatnonzero(np.isfinite(logits))
    token = int(allowed[pick % len(allowed)])
    row = np.array(logits, np.float32)
    scorer = Scorer(size)
    assert scorer.read(row) == int(np.argmax(logits))
    assert row.tolist() == logits
    assert scorer.top == max(logits)
    assert_near(scorer.score(logits[token]), reference.score(logits, token))


@pytest.mark.parametrize("offset", [0.0, 55.0, -55.0, 75.0])
def test_a_vocabulary_of_a_real_size(offset: float) -> None:
    logits = row_of(3, 150_000, 2.5, offset, 0.01)
    scorer, row = Scorer(len(logits)), np.array(logits, np.float32)
    best = scorer.read(row)
    assert_near(scorer.score(scorer.top), reference.score(logits, best))


def test_the_scorer_keeps_nothing_of_the_row_before() -> None:
    scorer, hot = Scorer(3), np.array([90.0, 0.0, -np.inf], np.float32)
    scorer.read(hot)
    scorer.read(np.array([0.0, 0.0, 0.0], np.float32))
    assert_near(scorer.score(0.0), TokenScore(-math.log(3), 0.0, math.log(3)))


def test_equal_likeliest_tokens_have_no_margin() -> None:
    scorer = Scorer(4)
    assert scorer.read(np.array([1.0, 2.0, 2.0, 0.0], np.float32)) == 1
    assert scorer.score(2.0).margin == 0.0


def test_a_certain_token_has_no_entropy() -> None:
    scorer, row = Scorer(3), np.array([-np.inf, 7.0, -np.inf], np.float32)
    assert scorer.read(row) == 1
    score = scorer.score(7.0)
    assert (score.logprob, score.entropy) == pytest.approx((0.0, 0.0), abs=1e-6)
    assert score.margin == math.inf


def test_forced_is_passed_on() -> None:
    scorer = Scorer(2)
    scorer.read(np.array([0.0, 1.0], np.float32))
    assert scorer.score(1.0, forced=True).forced
    assert not scorer.score(1.0).forced
