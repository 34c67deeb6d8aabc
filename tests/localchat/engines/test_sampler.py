"""Which token is drawn, against a plain float64 version of llama.cpp's order."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from localchat.engines.sampler import Sampler
from router.request import Sampling
from tests.localchat.engines import reference

PLAIN = Sampling(temperature=1.0, top_p=1.0, top_k=0, min_p=0.0, seed=1)
EVEN = 1e6  # a temperature at which all tokens left are equally likely

finite = st.one_of(st.floats(-20, 20, width=32), st.floats(-1e4, 1e4, width=32), st.sampled_from([0.0, 1.5]))
rows = st.tuples(finite, st.lists(st.one_of(finite, st.just(-math.inf)), max_size=11)).map(
    lambda parts: [parts[0], *parts[1]]
)
samplings = st.builds(
    Sampling,
    temperature=st.floats(0.05, 4.0),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 1.0)),
    top_k=st.integers(0, 13),
    min_p=st.one_of(st.just(0.0), st.floats(1e-9, 1.0)),
    seed=st.integers(0, 2**32 - 2),
)


def draws(logits: list[float], sampling: Sampling, count: int) -> list[int]:
    sampler, row = Sampler(sampling), np.array(logits, np.float32)
    return [sampler.draw(row) for _ in range(count)]


@given(rows, samplings)
def test_temperature_zero_takes_the_likeliest(logits: list[float], sampling: Sampling) -> None:
    assert draws(logits, replace(sampling, temperature=0.0), 2) == [int(np.argmax(logits))] * 2


@given(rows, samplings)
def test_the_same_seed_draws_the_same(logits: list[float], sampling: Sampling) -> None:
    assert draws(logits, sampling, 20) == draws(logits, sampling, 20)


def test_different_seeds_and_no_seed_draw_differently() -> None:
    even = [0.0] * 50
    assert len({tuple(draws(even, replace(PLAIN, seed=seed), 20)) for seed in (0, 1, 2, None, None)}) == 5


@given(rows, samplings)
def test_what_is_left_after_the_cuts_is_what_the_reference_leaves(
    logits: list[float], sampling: Sampling
) -> None:
    assume(not reference.on_an_edge(logits, sampling))
    expected = reference.candidates(logits, sampling)
    assert set(draws(logits, replace(sampling, temperature=EVEN), 40 * len(logits))) == set(expected)


@given(rows, samplings)
def test_a_forbidden_token_is_never_drawn_and_the_row_stays(logits: list[float], sampling: Sampling) -> None:
    sampler, row = Sampler(sampling), np.array(logits, np.float32)
    before = row.copy()
    assert all(math.isfinite(logits[sampler.draw(row)]) for _ in range(20))
    assert np.array_equal(row, before)


@pytest.mark.parametrize(
    "sampling",
    [
        PLAIN,
        replace(PLAIN, temperature=0.2),
        replace(PLAIN, temperature=3.0),
        replace(PLAIN, top_k=5, temperature=2.0),
        replace(PLAIN, top_p=0.8, temperature=0.7),
        replace(PLAIN, min_p=0.1, temperature=1.5),
        replace(PLAIN, top_k=40, top_p=0.95, min_p=0.05, temperature=0.8),
        replace(PLAIN, top_p=0.9, min_p=0.3),
    ],
    ids=repr,
)
def test_frequencies_are_those_of_the_reference(sampling: Sampling) -> None:
    logits = np.random.default_rng(7).normal(0, 2, 60).astype(np.float32).tolist()
    expected, count = reference.distribution(logits, sampling), 20_000
    seen = np.bincount(draws(logits, sampling, count), minlength=len(logits))
    assert {int(token) for token in np.flatnonzero(seen)} <= set(expected)
    common = [token for token, share in expected.items() if share * count >= 5]
    chi_square = sum((seen[t] - expected[t] * count) ** 2 / (expected[t] * count) for t in common)
    freedom = max(1, len(common) - 1)
    assert chi_square < freedom + 4 * math.sqrt(2 * freedom)


def test_of_equal_tokens_the_first_ones_are_kept() -> None:
    assert set(draws([1.0, 5.0, 5.0, 5.0], replace(PLAIN, top_k=2, temperature=EVEN), 200)) == {1, 2}


@pytest.mark.parametrize("size", [1, 2, 300_000])
def test_vocabularies_of_any_size(size: int) -> None:
    logits = np.full(size, -1e4, np.float32)
    logits[-1] = 1e4
    for sampling in (PLAIN, Sampling(), replace(PLAIN, top_p=0.5), replace(PLAIN, min_p=0.5)):
        assert Sampler(replace(sampling, seed=3)).draw(logits) == size - 1


def test_a_minimum_share_that_leaves_nothing_leaves_the_likeliest() -> None:
    assert set(draws([0.0, 1.0, 0.5], replace(PLAIN, min_p=1.0), 50)) == {1}


# -- penalties


@given(
    rows,
    st.lists(st.integers(0, 11), max_size=150),
    st.floats(0.5, 2.0),
    st.floats(-2.0, 2.0),
    st.floats(-2.0, 2.0),
)
def test_penalties_are_those_of_the_reference(
    logits: list[float], past: list[int], repeat: float, frequency: float, presence: float
) -> None:
    past = [token % len(logits) for token in past]
    sampling = Sampling(repeat_penalty=repeat, frequency_penalty=frequency, presence_penalty=presence)
    sampler, row = Sampler(sampling), np.array(logits, np.float32)
    for token in past:
        sampler.accept(token)
    sampler.penalise(row)
    np.testing.assert_allclose(row, reference.penalised(logits, past, sampling), rtol=1e-5, atol=1e-4)


def test_without_penalties_the_row_is_not_touched() -> None:
    sampler, row = Sampler(Sampling()), np.array([1.0, -1.0], np.float32)
    sampler.accept(0)
    sampler.penalise(row)
    assert not sampler.penalises
    assert row.tolist() == [1.0, -1.0]


def test_tokens_further_back_than_the_window_are_not_penalised() -> None:
    sampler, row = Sampler(Sampling(repeat_penalty=2.0)), np.array([4.0, 4.0], np.float32)
    for token in [0, *[1] * 64]:
        sampler.accept(token)
    sampler.penalise(row)
    assert row.tolist() == [4.0, 2.0]
