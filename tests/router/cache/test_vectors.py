"""The matrix gives what comparing one by one would give."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from router.cache.vectors import FIRST_ROWS, Vectors
from tests.router.cache.fakes import direction


def filled(count: int) -> Vectors:
    vectors = Vectors(64)
    vectors.extend(list(range(1, count + 1)), [direction(str(n)).tobytes() for n in range(1, count + 1)])
    return vectors


@settings(deadline=None)
@given(count=st.integers(0, 700), wanted=st.integers(1, 6), asked=st.integers(1, 900))
def test_the_nearest_are_those_of_the_full_comparison(count: int, wanted: int, asked: int) -> None:
    vectors = filled(count)
    cosines = {n: float(direction(str(n)) @ direction(str(asked))) for n in range(1, count + 1)}
    expected = sorted(cosines.values(), reverse=True)[:wanted]

    found = vectors.nearest(direction(str(asked)), wanted)
    assert np.allclose([score for _, score in found], expected, atol=1e-5)
    assert all(abs(cosines[entry] - score) < 1e-5 for entry, score in found)


@settings(deadline=None)
@given(least=st.floats(-1, 1), near=st.floats(0, 1), count=st.integers(1, 400))
def test_no_row_that_reaches_the_threshold_is_passed_over(least: float, near: float, count: int) -> None:
    """Reading most rows to a third only must not lose one."""
    vectors = filled(count)
    mixed = near * direction("1") + (1 - near) * direction("other")
    asked = np.asarray(mixed / np.linalg.norm(mixed), dtype=np.float32)
    cosines = {n: float(direction(str(n)) @ asked) for n in range(1, count + 1)}

    found = {entry for entry, _ in vectors.nearest(asked, count, least)}
    assert {n for n, cosine in cosines.items() if cosine > least + 1e-4} <= found
    assert all(cosines[n] > least - 1e-4 for n in found)


def test_growth_keeps_what_was_there() -> None:
    vectors = filled(FIRST_ROWS * 3)

    assert vectors.nearest(direction("1"), 1)[0][0] == 1
    assert len(vectors) == vectors.last_id == FIRST_ROWS * 3


def test_what_was_dropped_is_not_found_and_hides_nothing() -> None:
    vectors = filled(10)
    vectors.drop(3)

    assert vectors.nearest(direction("3"), 1)[0][0] != 3
    assert len(vectors.nearest(direction("3"), 10)) == 9


def test_a_row_that_is_no_unit_vector_matches_nothing() -> None:
    """However it came into the file: too short, too long, not a number, infinite, far too large."""
    bad = [b"", b"\x00" * 4, direction("x").tobytes() * 2, (direction("x") * np.float32(1e30)).tobytes()]
    bad += [np.full(64, value, dtype=np.float32).tobytes() for value in (np.nan, np.inf, 0.0)]
    vectors = Vectors(64)
    vectors.extend([*range(1, len(bad) + 1)], bad)
    vectors.extend([100], [direction("x").tobytes()])

    assert [entry for entry, _ in vectors.nearest(direction("x"), 5, least=0.5)] == [100]
