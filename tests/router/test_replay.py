"""What another policy would have done: the same every time, and nothing made up."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.decision import Alternative
from router.economics import Saving, own_saving
from router.errors import InvalidRequest
from router.ledger import Entry
from router.replay import Replayed, replay
from router.request import Usage
from tests.router.ledger.entries import CLOUD, LOCAL, plain


def known(number: int, difficulty: float | None = 0.5, **changes: object) -> Entry:
    entry = plain(number, difficulty=difficulty, expected=LOCAL, alternatives=(Alternative(CLOUD, "dearer"),))
    return replace(entry, **changes)


def test_always_here_and_always_there() -> None:
    entries = [known(n) for n in range(10)]
    assert replay("local", entries) == Replayed("local", 10, seconds=60.0)
    assert replay("cloud", entries) == Replayed("cloud", 10, 10, cost_usd=pytest.approx(0.01), seconds=35.0)


def test_what_was_paid_counts_more_than_what_was_estimated() -> None:
    paid = known(1, route="cloud", answered_by="cloud", cost_usd=0.5, avoided_usd=None)
    assert replay("recorded", [paid]).cost_usd == 0.5
    assert replay("local", [paid]).cost_usd == 0.0
    assert replay("cloud", [known(1, avoided_usd=None)]).cost_usd == CLOUD.cost_usd


@given(st.lists(st.floats(0, 1), max_size=20), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_bound_never_sends_more(difficulties: list[float], one: float, other: float) -> None:
    entries = [known(n, difficulty) for n, difficulty in enumerate(difficulties)]
    low, high = (replay(f"difficulty>={bound:.6f}", entries) for bound in sorted((one, other)))
    assert low.to_cloud >= high.to_cloud
    assert low.cost_usd >= high.cost_usd
    assert low == replay(low.policy, entries)


def test_length_is_that_of_the_prompt() -> None:
    entries = [known(n, usage=Usage(n * 100, 0, 1)) for n in range(5)]
    assert replay("length >= 300", entries).to_cloud == 2


def test_what_is_unknown_is_counted_and_never_zero() -> None:
    bare = plain(1, avoided_usd=None, usage=None)
    found = replay("cloud", [bare])
    assert (found.to_cloud, found.cost_unknown, found.seconds_unknown) == (1, 1, 1)
    assert replay("difficulty>=0", [bare]) == Replayed("difficulty>=0", 1, undecided=1, seconds_unknown=1)
    assert replay("length>=0", [bare]).undecided == 1
    assert replay("local", []).cloud_share is None


@pytest.mark.parametrize(
    "why", [{"mode": "local"}, {"privacy_action": "kept local"}, {"privacy_action": "refused"}]
)
def test_what_had_to_stay_stays_under_every_policy(why: dict[str, str]) -> None:
    found = replay("cloud", [known(1, **why)])
    assert (found.fixed, found.to_cloud, found.cost_usd) == (1, 0, 0.0)


@pytest.mark.parametrize(
    "policy", ["", "remote", "difficulty>=", "difficulty>=x", "difficulty<0.5", "length>=-1"]
)
def test_an_unknown_policy_is_named(policy: str) -> None:
    with pytest.raises(InvalidRequest, match="Known are recorded, local, cloud"):
        replay(policy, [])


def test_four_fifths_to_a_model_ten_times_cheaper_save_72_percent() -> None:
    saving = Saving(Fraction("0.8"), Fraction(10))
    assert saving.mean_cost == Fraction(28, 100)
    assert saving.saved == Fraction(72, 100)


@given(st.fractions(0, 1), st.fractions(1, 100))
def test_nothing_costs_more_than_the_dear_model_or_less_than_the_cheap_one(
    share: Fraction, ratio: Fraction
) -> None:
    assert 1 / ratio <= Saving(share, ratio).mean_cost <= 1


def test_the_own_saving_is_unknown_before_any_cost() -> None:
    assert own_saving(0.0, 0.0) is None
    assert own_saving(1.0, 3.0) == 0.75
