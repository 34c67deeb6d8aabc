"""Laws of the residual: the parts sum to the difference, and each moves with its own cause alone."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.predict import DecodeTerms
from bandwidth_model.residual import Measured, residual

PREDICTED = DecodeTerms(weights_s=0.040, kv_s=0.004, layers_s=0.003, token_s=0.001)
AS_PREDICTED = Measured(0.048, weights_s=0.040, kv_s=0.004, overhead_s=0.004)

# What happens, what is then observed, and by how much a token really takes longer.
INJECTED = {
    "bytes_s": ({"weights_s": 0.050}, 0.010),
    "context_s": ({"kv_s": 0.009}, 0.005),
    "overhead_s": ({"overhead_s": 0.006}, 0.002),
    "throttling_s": ({"clock": 0.8}, 0.048 * 0.25),
    "contention_s": ({"cores_taken": 0.5}, 0.048),
    "screen_s": ({"screen_s": 0.003}, 0.003),
    "unexplained_s": ({}, 0.007),
}


def parts(measured: Measured) -> dict[str, float]:
    return asdict(residual(PREDICTED, measured))


def test_nothing_differs_where_all_is_as_predicted() -> None:
    assert all(abs(part) < 1e-12 for part in parts(AS_PREDICTED).values())


@pytest.mark.parametrize("name", INJECTED)
def test_an_injected_cause_moves_its_part_and_no_other(name: str) -> None:
    observed, longer_s = INJECTED[name]
    found = parts(replace(AS_PREDICTED, seconds_per_token=0.048 + longer_s, **observed))
    assert found.pop(name) == pytest.approx(longer_s)
    assert all(abs(part) < 1e-12 for part in found.values())


def test_what_nobody_observed_is_unexplained() -> None:
    found = parts(Measured(0.060))
    assert found.pop("unexplained_s") == pytest.approx(0.012)
    assert set(found.values()) == {0.0}


@given(
    st.floats(1e-4, 10),
    st.none() | st.floats(0, 1),
    st.none() | st.floats(0, 1),
    st.none() | st.floats(0, 1),
    st.floats(-1, 2),
    st.floats(0.1, 2),
    st.floats(0, 1),
)
def test_the_parts_sum_to_the_difference(
    seconds: float,
    weights_s: float | None,
    kv_s: float | None,
    overhead_s: float | None,
    cores_taken: float,
    clock: float,
    screen_s: float,
) -> None:
    measured = Measured(seconds, weights_s, kv_s, overhead_s, cores_taken, clock, screen_s)
    assert residual(PREDICTED, measured).total_s == pytest.approx(seconds - PREDICTED.total_s, abs=1e-9)
