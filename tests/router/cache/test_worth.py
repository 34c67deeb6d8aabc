"""The economics of the facts, to the cent, and their laws."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.cache.worth import worth
from router.errors import InvalidRequest

CALL_USD, WRONG_USD = 0.002, 0.05


def test_97_percent_hits_with_5_7_percent_wrong_do_not_pay() -> None:
    found = worth(
        calls=1000, hit_rate=0.97, wrong_rate=0.057, call_cost_usd=CALL_USD, wrong_cost_usd=WRONG_USD
    )

    assert found.saved_usd == pytest.approx(1.94)
    assert found.lost_usd == pytest.approx(2.85)
    assert found.net_usd == pytest.approx(-0.91)
    assert not found.pays


def test_96_percent_hits_without_an_error_pay() -> None:
    found = worth(
        calls=1000, hit_rate=0.961, wrong_rate=0.0, call_cost_usd=CALL_USD, wrong_cost_usd=WRONG_USD
    )

    assert round(found.saved_usd, 2) == 1.92
    assert found.lost_usd == 0
    assert found.pays


@settings(deadline=None)
@given(hit=st.floats(0.01, 1), call=st.floats(1e-5, 1), wrong=st.floats(1e-5, 100))
def test_at_the_largest_wrong_rate_nothing_is_won_or_lost(hit: float, call: float, wrong: float) -> None:
    at = worth(calls=10, hit_rate=hit, wrong_rate=0, call_cost_usd=call, wrong_cost_usd=wrong).most_wrong_rate
    found = worth(calls=10, hit_rate=hit, wrong_rate=at, call_cost_usd=call, wrong_cost_usd=wrong)

    assert found.net_usd == pytest.approx(0, abs=1e-6) or at == hit


@pytest.mark.parametrize(("hit", "wrong"), [(1.1, 0), (0.5, 0.6), (0.5, -0.1), (float("nan"), 0)])
def test_rates_that_cannot_be_are_refused(hit: float, wrong: float) -> None:
    with pytest.raises(InvalidRequest):
        worth(calls=1, hit_rate=hit, wrong_rate=wrong, call_cost_usd=1, wrong_cost_usd=1)
