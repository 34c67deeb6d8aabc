"""What own runs change: what they are about, by how much they tell, and never beyond them."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.own_runs import Factors, OwnRun, factors

times = st.floats(1e-3, 1)
ratios = st.floats(0.4, 2.5)
deviations = st.floats(0.03, 1)


@given(st.lists(st.tuples(times, times, st.integers(1, 9)), max_size=4), deviations)
def test_what_was_met_changes_nothing(found: list[tuple[float, float, int]], deviation: float) -> None:
    own = [OwnRun(rest, attention, rest + attention, runs) for rest, attention, runs in found]
    result = factors(own, deviation)
    assert (result.rest, result.attention) == (pytest.approx(1), pytest.approx(1))


@given(times, times, ratios, st.integers(1, 50), deviations)
def test_a_run_pulls_its_own_prediction_towards_it_and_not_beyond(
    rest: float, attention: float, ratio: float, runs: int, deviation: float
) -> None:
    found = factors([OwnRun(rest, attention, (rest + attention) * ratio, runs)], deviation)
    moved = log((found.rest * rest + found.attention * attention) / (rest + attention))
    assert moved * (1 if ratio > 1 else -1) + 1e-9 >= 0
    assert abs(moved) <= abs(log(ratio)) + 1e-6


@given(times, ratios, deviations)
def test_a_shallow_run_says_nothing_of_attention_alone(rest: float, ratio: float, deviation: float) -> None:
    """Both parts move together: the machine was faster or slower than was thought."""
    found = factors([OwnRun(rest, 0.0, rest * ratio)], deviation)
    assert found.attention == pytest.approx(found.rest)


@given(times, st.floats(1.2, 2.5), deviations)
def test_what_only_a_deep_run_shows_is_attentions(rest: float, ratio: float, deviation: float) -> None:
    shallow = OwnRun(rest, 0.0, rest, runs=5)
    deep = OwnRun(rest, rest, rest + rest * ratio, runs=5)
    found = factors([shallow, deep], deviation)
    assert found.attention > found.rest
    assert found.attention > 1
    assert abs(log(found.rest)) < log(found.attention)


@given(times, times, ratios, deviations)
def test_more_runs_count_for_more(rest: float, attention: float, ratio: float, deviation: float) -> None:
    moved = []
    for runs in (1, 5, 25):
        found = factors([OwnRun(rest, attention, (rest + attention) * ratio, runs)], deviation)
        moved.append(abs(log((found.rest * rest + found.attention * attention) / (rest + attention))))
    assert moved == sorted(moved) or moved == pytest.approx([moved[0]] * 3, abs=1e-6)


def test_without_runs_nothing_changes() -> None:
    assert factors([], 0.1) == Factors()
