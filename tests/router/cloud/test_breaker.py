"""The breaker: opens after failures in a row, lets one trial through, closes with a success."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from router.cloud.breaker import Breaker


def opened(at_s: float = 0.0) -> Breaker:
    breaker = Breaker(failures_to_open=2, rest_s=10, longest_rest_s=35)
    for _ in range(2):
        assert breaker.permit(at_s) == 0
        breaker.failed(at_s)
    return breaker


def test_it_opens_after_failures_in_a_row() -> None:
    breaker = Breaker(failures_to_open=2)
    for outcome in ("failed", "succeeded", "failed"):
        assert breaker.permit(0) == 0
        breaker.failed(0) if outcome == "failed" else breaker.succeeded()
    assert breaker.state(0) == "closed"
    breaker.failed(0)
    assert breaker.state(0) == "open"


def test_it_rests_then_tries_once() -> None:
    breaker = opened()
    assert (breaker.permit(4), breaker.state(4)) == (6, "open")
    assert (breaker.permit(10), breaker.state(10)) == (0, "half-open")
    assert breaker.permit(10) > 0  # the trial is under way
    breaker.succeeded()
    assert (breaker.permit(10), breaker.state(10)) == (0, "closed")


def test_each_failed_trial_doubles_the_rest_up_to_a_limit() -> None:
    breaker, now_s, rests = opened(), 10.0, []
    for _ in range(4):
        assert breaker.permit(now_s) == 0
        breaker.failed(now_s)
        rests.append(breaker.permit(now_s))
        now_s += rests[-1]
    assert rests == [20, 35, 35, 35]


def test_an_abandoned_trial_makes_way_for_the_next() -> None:
    breaker = opened()
    assert breaker.permit(10) == 0
    breaker.abandoned()
    assert breaker.permit(10) == 0


def test_requests_from_before_the_opening_do_not_prolong_it() -> None:
    breaker = opened()
    breaker.failed(9)
    assert breaker.permit(10) == 0


@given(st.lists(st.tuples(st.sampled_from(["ok", "bad", "gone", "wait"]), st.floats(0, 100)), max_size=60))
def test_whatever_happens_it_lets_a_request_through_in_the_end(steps: list[tuple[str, float]]) -> None:
    breaker, now_s = Breaker(failures_to_open=2, rest_s=5, longest_rest_s=60), 0.0
    for what, seconds in steps:
        now_s += seconds
        if what == "wait" or breaker.permit(now_s):
            continue
        if what == "ok":
            breaker.succeeded()
        elif what == "bad":
            breaker.failed(now_s)
        else:
            breaker.abandoned()
    assert breaker.permit(now_s + 60) == 0
