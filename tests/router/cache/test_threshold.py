"""Laws of the bound, and the values that are known for it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.cache.threshold import (
    Sample,
    beta_cdf,
    contradicts,
    hits_needed,
    promise,
    recalibrated,
    upper_bound,
)


@pytest.mark.parametrize(("epsilon", "needed"), [(0.05, 45), (0.02, 114)])
def test_hits_that_are_needed_without_an_error(epsilon: float, needed: int) -> None:
    assert hits_needed(epsilon, 0.1) == needed


@pytest.mark.parametrize(
    ("x", "a", "b", "expected"),
    [
        (0.5, 1, 1, 0.5),
        (0.3, 2, 5, 0.579825),  # 1 - sum of C(6, k) .3^k .7^(6-k) for k < 2
        (0.02, 1, 114, 1 - 0.98**114),
        (0.9, 40, 3, 1 - sum(math.comb(42, k) * 0.9**k * 0.1 ** (42 - k) for k in range(40))),
    ],
)
def test_known_values_of_the_beta_distribution(x: float, a: float, b: float, expected: float) -> None:
    actual = beta_cdf(x, a, b)
    if (a, b) == (40, 3):
        expected = sum(math.comb(42, k) * 0.9**k * 0.1 ** (42 - k) for k in range(40, 43))
    assert actual == pytest.approx(expected, abs=1e-6)


@settings(deadline=None)
@given(wrong=st.integers(0, 40), right=st.integers(1, 400), eta=st.sampled_from([0.05, 0.1, 0.2]))
def test_at_the_bound_so_few_errors_have_exactly_the_doubt_that_is_allowed(
    wrong: int, right: int, eta: float
) -> None:
    hits = wrong + right
    bound = upper_bound(wrong, hits, eta)

    seen = sum(math.comb(hits, k) * bound**k * (1 - bound) ** (hits - k) for k in range(wrong + 1))
    assert seen == pytest.approx(eta, rel=1e-6)


@settings(deadline=None)
@given(wrong=st.integers(0, 20), right=st.integers(0, 200))
def test_another_error_raises_the_bound_and_another_right_hit_lowers_it(wrong: int, right: int) -> None:
    hits = wrong + right
    assert upper_bound(wrong + 1, hits + 1) >= upper_bound(wrong, hits)
    assert upper_bound(wrong, hits + 1) <= upper_bound(wrong, hits)


def test_a_small_sample_promises_nothing_and_says_why() -> None:
    found = promise([Sample(0.99, True)] * 113)

    assert found.threshold is None
    assert "113" in found.why_off
    assert "114" in found.why_off


def test_the_scan_stops_at_the_first_failure() -> None:
    good = [Sample(0.95, True)] * 200
    bad = [Sample(0.9, False)] * 20
    again = [Sample(0.85, True)] * 300

    assert promise([*again, *bad, *good]).threshold == 0.95


def test_a_sample_whose_best_hits_are_wrong_promises_nothing() -> None:
    found = promise([Sample(0.99, False)] * 10 + [Sample(0.9, True)] * 150)

    assert found.threshold is None
    assert found.wrong == 10


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(0.5, 1.0), st.booleans()), max_size=400))
def test_what_is_promised_holds_in_the_sample(pairs: list[tuple[float, bool]]) -> None:
    samples = [Sample(similarity, correct) for similarity, correct in pairs]
    found = promise(samples, epsilon=0.2)

    if found.threshold is not None:
        served = [sample for sample in samples if sample.similarity >= found.threshold]
        assert len(served) >= found.hits - 1e-9
        assert upper_bound(found.wrong, found.hits) <= 0.2


def test_a_promise_is_kept_in_nine_of_ten_worlds() -> None:
    random = np.random.default_rng(5)
    broken = made = 0
    for _ in range(200):
        similarity = random.uniform(0.7, 1.0, 1500)
        truly_wrong = np.clip((0.9 - similarity) * 0.6, 0.002, 1)
        samples = [
            Sample(float(s), bool(c))
            for s, c in zip(similarity, random.random(1500) > truly_wrong, strict=True)
        ]
        found = promise(samples)
        if found.threshold is not None:
            made += 1
            served = similarity >= found.threshold
            broken += float(truly_wrong[served].mean()) > 0.02

    assert made > 100
    assert broken <= 0.1 * 200 + 3 * math.sqrt(200 * 0.1 * 0.9)


def test_a_record_contradicts_only_where_it_must() -> None:
    assert not contradicts(0, 0)
    assert not contradicts(0, 1000)
    assert not contradicts(1, 50)
    assert contradicts(3, 10)
    assert contradicts(10, 100)


def test_a_promise_that_holds_is_seldom_taken_for_broken_however_often_one_looks() -> None:
    random = np.random.default_rng(11)
    stopped = 0
    for _ in range(300):
        wrong = np.cumsum(random.random(400) < 0.02)
        stopped += any(contradicts(int(k), n) for n, k in enumerate(wrong, 1))

    assert stopped <= 300 * 0.05 + 3 * math.sqrt(300 * 0.05 * 0.95)


def test_own_verdicts_join_at_first_and_then_take_over() -> None:
    shipped = [Sample(0.9, True)] * 200
    few = [Sample(0.95, False)] * 6
    many = [Sample(0.97, True)] * 120

    assert recalibrated(shipped, few).threshold is None
    assert recalibrated(shipped, []).threshold == 0.9
    assert recalibrated(shipped, many).threshold == 0.97
