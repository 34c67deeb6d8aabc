"""A leap takes exactly the steps that single steps would have taken before the same time."""

from __future__ import annotations

import math

from hypothesis import assume, given
from hypothesis import strategies as st

from router.simcloud.leap import series_s, steps_begun_before


@given(st.integers(0, 500), st.floats(1e-3, 1.0), st.floats(0.0, 1e-2))
def test_a_series_is_the_sum_of_its_steps(steps: int, first_s: float, growth_s: float) -> None:
    one_by_one = math.fsum(first_s + step * growth_s for step in range(steps))
    assert math.isclose(series_s(steps, first_s, growth_s), one_by_one, rel_tol=1e-12, abs_tol=1e-12)


@given(
    st.floats(0.0, 5.0), st.integers(0, 2), st.floats(1e-2, 1.0), st.floats(0.0, 1e-2), st.integers(1, 400)
)
def test_steps_are_counted_as_if_planned_singly(
    left_s: float, ahead: int, first_s: float, growth_s: float, at_most: int
) -> None:
    begins_s = [series_s(step, first_s, growth_s) for step in range(at_most)]
    assume(all(abs(begin_s - left_s) > 1e-9 for begin_s in begins_s))
    # Step k is planned when step k - ahead begins; those planned already need no time.
    planned = sum(1 for step in range(at_most) if step <= ahead or begins_s[step - ahead] < left_s)
    expected = max(1, planned) if left_s > 0 else 1
    assert steps_begun_before(left_s, ahead, first_s, growth_s, at_most) == expected
