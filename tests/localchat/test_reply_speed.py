"""A reply's speed as its events tell it: live, at its end, and frozen afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localchat.reply_speed import LEAST_DECODED, ReplySpeed
from router.forecaster import Observed
from router.request import Delta, Event, Finished, Predicted, Timings, TokenScore
from tests.router.forecasters import FORECAST, TERMS, FakeForecaster, FakeWatch

SCORE = TokenScore(-0.1, 2.0, 0.5)
END = Finished("stop", timings=Timings(load_s=1.0, ttft_s=1.3, decode_tokens_per_s=64.0))


def followed(*timed: tuple[float, Event], seen: Observed | None = None) -> tuple[ReplySpeed, FakeForecaster]:
    known = FakeForecaster(watched=FakeWatch(seen or Observed(4.0, 2)))
    speed = ReplySpeed(known)
    for at_s, event in timed:
        speed.take(event, at_s)
    return speed, known


def tokens(count: int, since_s: float = 10.5, rate: float = 40.0) -> list[tuple[float, Event]]:
    return [(since_s + n / rate, Delta("x", scores=(SCORE,))) for n in range(count)]


def test_live_it_is_the_rate_of_arriving_tokens_since_the_first() -> None:
    speed, known = followed((10.0, Predicted(FORECAST)), *tokens(41))
    report = speed.report()
    assert (report.live, report.tokens, known.watched.begun) == (True, 41, 1)
    assert report.tokens_per_s == pytest.approx(40.0)
    assert report.ttft_s == pytest.approx(0.5)
    assert report.read_bytes_per_s == pytest.approx(40 * FORECAST.bytes_per_token)


def test_at_the_end_the_engines_own_figures_count_and_loading_does_not() -> None:
    speed, known = followed((10.0, Predicted(FORECAST)), *tokens(41), (12.0, END))
    speed.end()
    report = speed.report()
    assert (report.live, report.tokens_per_s, report.ttft_s) == (False, 64.0, pytest.approx(0.3))
    known.watched.seen = Observed(9.0, 2, 2.0)
    speed.take(Delta("late", scores=(SCORE,)), 99.0)
    assert speed.report() == report


def test_the_parts_sum_to_the_difference() -> None:
    seen = Observed(4.0, 2, others_cores=0.4, own_cpu_s=0.08)
    speed, _ = followed((10.0, Predicted(FORECAST)), *tokens(41), seen=seen)
    report = speed.report()
    assert report.residual
    assert report.residual.total_s == pytest.approx(1 / 40 - TERMS.total_s)
    assert report.residual.screen_s == pytest.approx(0.08 / 40)
    assert report.depth == FORECAST.prompt_tokens + 41 / 2
    assert report.residual.context_s == pytest.approx((report.depth - FORECAST.depth) / 400_000)


def test_the_difference_to_a_guess_is_not_taken_apart() -> None:
    speed, _ = followed((10.0, Predicted(replace(FORECAST, guessed=True))), *tokens(41))
    assert (speed.report().tokens_per_s, speed.report().residual) == (pytest.approx(40.0), None)


def test_a_handful_of_tokens_explains_nothing() -> None:
    speed, _ = followed((10.0, Predicted(FORECAST)), *tokens(LEAST_DECODED))
    assert speed.report().residual is None
    assert speed.report().tokens_per_s


def test_without_a_prediction_only_what_was_measured_is_told() -> None:
    known = FakeForecaster(unknown="Nobody knows.")
    speed = ReplySpeed(known)
    for at_s, event in [*tokens(20), (20.0, END)]:
        speed.take(event, at_s)
    report = speed.report()
    assert (report.forecast, report.residual, report.unknown) == (None, None, "Nobody knows.")
    assert report.tokens_per_s == 64.0
    assert ReplySpeed().report().tokens_per_s is None


def test_a_stopped_reply_keeps_what_was_measured() -> None:
    speed, _ = followed((10.0, Predicted(replace(FORECAST, depth=50.0))), *tokens(30))
    speed.end()
    assert not speed.report().live
    assert speed.report().tokens_per_s == pytest.approx(40.0)
