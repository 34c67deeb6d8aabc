"""Laws of the measures that routing is reported by, and of the fits behind the shipped weights."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from benchmarks.difficulty_fit import Labelled, Training, folds, platt, train
from benchmarks.ranking import apgr, auroc, cpt, interval, recovered
from benchmarks.train_confidence import SIGNS, fit
from benchmarks.train_difficulty import ordinary
from router.confidence import FEATURES
from router.question import features

gains = st.lists(st.sampled_from([-1.0, 0.0, 0.0, 1.0, 1.0]), min_size=2, max_size=60)


@settings(deadline=None)
@given(gains, st.randoms())
def test_recovery_runs_from_nothing_to_all_and_no_order_beats_the_right_one(
    gain: list[float], draw: random.Random
) -> None:
    added = np.array(gain)
    assume(added.sum() > 0)
    scores = np.array([draw.random() for _ in gain])
    curve = recovered(scores, added)
    assert (curve[0], curve[-1]) == (0.0, pytest.approx(1.0))
    assert apgr(scores, added) <= apgr(added, added) + 1e-9
    assert cpt(added, added) <= cpt(scores, added) + 1e-9


@settings(deadline=None)
@given(gains)
def test_without_an_order_half_is_recovered(gain: list[float]) -> None:
    added = np.array(gain)
    assume(added.sum() > 0)
    assert apgr(np.zeros(len(gain)), added) == pytest.approx(0.5)


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(-5, 5), st.booleans()), min_size=2, max_size=40))
def test_auroc_is_symmetric(points: list[tuple[float, bool]]) -> None:
    scores, positive = np.array([s for s, _ in points]), np.array([p for _, p in points])
    assume(0 < positive.sum() < len(points))
    assert auroc(scores, positive) == pytest.approx(1 - auroc(-scores, positive))
    assert auroc(positive.astype(float), positive) == 1.0


def test_an_interval_holds_what_it_is_of() -> None:
    draw = np.random.default_rng(1)
    gain = (draw.random(300) < 0.3).astype(float)
    scores = gain + draw.normal(0, 2, 300)
    low, high = interval(apgr, scores, gain)
    assert low < apgr(scores, gain) < high


@settings(deadline=None)
@given(st.integers(5, 200), st.integers(0, 9))
def test_folds_test_each_once_on_what_was_not_learned(count: int, seed: int) -> None:
    pairs = folds(count, seed=seed)
    assert sorted(np.concatenate([tested for _, tested in pairs])) == list(range(count))
    assert all(not set(fitted) & set(tested) for fitted, tested in pairs)


def test_a_logistic_curve_is_found_again() -> None:
    draw = np.random.default_rng(2)
    scores = draw.uniform(-3, 3, 20_000)
    better = (draw.random(20_000) < 1 / (1 + np.exp(-(1.5 * scores - 0.5)))).astype(float)
    assert platt(scores, better) == pytest.approx((1.5, -0.5), abs=0.1)


def test_the_weights_tell_what_they_were_fitted_to_and_the_same_data_give_the_same() -> None:
    told = ordinary("train")
    few = Labelled(told.texts[::3], told.gain[::3])
    nothing = Labelled([], np.zeros(0))
    scorer, again = train(Training(few, nothing)), train(Training(few, nothing))
    assert np.array_equal(scorer.weights, again.weights)
    scores = np.array([scorer.score(features(text)) for text in few.texts])
    assert auroc(scores, few.gain > 0) > 0.95


def test_confidence_never_weighs_a_feature_the_wrong_way_round() -> None:
    draw = np.random.default_rng(3)
    rows = draw.normal(0, 1, (200, len(FEATURES)))
    wrong = draw.random(200) < 0.5  # noise: a free fit would take any sign
    weights = np.array(fit("m", rows.tolist(), wrong.tolist()).weights)
    assert (weights * SIGNS >= 0).all()
