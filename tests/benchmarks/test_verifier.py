"""How the benchmark of the verifier fits a threshold and divides what it judged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchmarks.bench_verifier import Judged, Pair, fitted, halves

values = st.floats(0, 1, allow_nan=False)


def judged(value: float, right: bool) -> Judged:
    return Judged(Pair("asked", "stored", right), value, 0.1)


@given(st.lists(values, min_size=1), st.lists(values, min_size=1), values)
def test_where_a_threshold_can_tell_all_apart_it_is_found(
    low: list[float], high: list[float], by: float
) -> None:
    wrong = [judged(value * by - 1, False) for value in low]
    right = [judged(value + by, True) for value in high]
    at_least = fitted([*right, *wrong])

    assert all(j.value >= at_least for j in right)
    assert not any(j.value >= at_least for j in wrong)


def test_where_no_threshold_tells_them_apart_none_refuses_anything() -> None:
    assert fitted([judged(0.1, True), judged(0.9, False)]) == 0.1


@given(st.lists(st.tuples(values, st.booleans())))
def test_halves_hold_everything_once_and_as_much_of_either_kind(drawn: list[tuple[float, bool]]) -> None:
    everything = [judged(*one) for one in drawn]
    one, other = halves(everything)

    assert sorted([*one, *other], key=lambda j: (j.value, j.pair.right)) == sorted(
        everything, key=lambda j: (j.value, j.pair.right)
    )
    assert abs(sum(j.pair.right for j in one) - sum(j.pair.right for j in other)) <= 1
