"""Laws of the purse: whatever order requests come and end in, no limit is exceeded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.budget import Budget, Purse, dollars, most_prompt_tokens, worst_cost_usd
from router.prices import Price
from router.request import Message

steps = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.floats(0, 2), st.none() | st.floats(0, 1), st.booleans()),
    max_size=30,
)


@settings(deadline=None)
@given(steps, st.none() | st.floats(0, 5), st.none() | st.floats(0, 5))
def test_no_order_of_requests_spends_more_than_a_limit(
    steps: list[tuple[str, float, float | None, bool]], day: float | None, conversation: float | None
) -> None:
    purse = Purse(Budget(day, conversation))
    open_, paid = list[tuple[int, float | None]](), {"a": 0.0, "b": 0.0}
    for name, worst, share, ends in steps:
        number = purse.reserve(name, worst)
        if number is not None:
            open_.append((number, None if share is None else share * worst))
            paid[name] += worst if share is None else share * worst
        if ends and open_:
            purse.settle(*open_.pop(0))
        budget = purse.budget(name)
        assert day is None or budget.spent_today_usd <= day + 1e-6
        assert conversation is None or budget.spent_conversation_usd <= conversation + 1e-6
    for number, cost in open_:
        purse.settle(number, cost)
    assert purse.budget("a").spent_today_usd == pytest.approx(sum(paid.values()))
    assert purse.budget("b").spent_conversation_usd == pytest.approx(paid["b"])


def test_two_in_flight_cannot_both_take_the_last_money() -> None:
    purse = Purse(Budget(day_usd=1.0))
    first = purse.reserve("a", 0.7)
    assert first is not None
    assert purse.reserve("b", 0.7) is None
    purse.settle(first, 0.1)
    assert purse.reserve("b", 0.7) is not None


def test_a_new_day_keeps_what_a_conversation_cost() -> None:
    purse = Purse(Budget(day_usd=1.0, conversation_usd=1.5), today_usd=0.9)
    purse.opened("a", 1.0)
    assert purse.reserve("a", 0.2) is None
    purse.new_day()
    assert purse.reserve("a", 0.4) is not None
    assert "conversation" in purse.budget("a").objection(0.4)


def test_the_limit_itself_may_be_spent_and_zero_is_a_limit() -> None:
    assert Budget(day_usd=0.3, spent_today_usd=0.2).objection(0.1) == ""
    assert "$0.10" in Budget(day_usd=0.0).objection(0.1) or "$0.1" in Budget(day_usd=0.0).objection(0.1)
    assert Budget(day_usd=0.0).objection(0.0) == ""


@settings(deadline=None)
@given(st.lists(st.builds(Message, st.just("user"), st.text(max_size=50)), max_size=5))
def test_a_prompt_has_no_more_tokens_than_bytes(messages: list[Message]) -> None:
    most = most_prompt_tokens(messages)
    assert most >= sum(len(m.content) for m in messages)
    worst = worst_cost_usd(Price(1.0, 2.0, 0.1), most, 100)
    assert worst == pytest.approx((most + 200) / 1e6)
    assert worst_cost_usd(None, most, 100) is None


def test_dollars_say_what_matters() -> None:
    assert (dollars(0), dollars(0.00213), dollars(12.345)) == ("$0.00", "$0.0021", "$12.35")
