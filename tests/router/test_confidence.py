"""Laws of confidence, of its gate, and of what a person's verdicts change."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.confidence import (
    FEATURES,
    Calibration,
    agreement,
    judge,
    log_odds,
    measured,
    probability,
    threshold_for,
    with_agreement,
)
from router.decision import Confidence
from router.errors import BackendCrashed
from router.feedback import LEAST_LABELS, Label, recalibrated
from router.gate import LEAST_TOKENS, MOST_TOKENS, Gate
from router.request import Delta, Event, Failed, Finished, Judged, Notice, Progress, TokenScore, ToolCall

MODEL = "smollm2-135m-instruct-q4_1"
SURE, DOUBTFUL = TokenScore(-0.01, 9.0, 0.05), TokenScore(-2.5, 0.1, 4.0)

scores_ = st.builds(TokenScore, st.floats(-20, 0), st.floats(0, 30), st.floats(0, 11), st.booleans())


@settings(deadline=None)
@given(st.lists(scores_, max_size=40), st.text(max_size=40), st.sampled_from([MODEL, "another"]))
def test_any_beginning_is_judged(scores: list[TokenScore], text: str, model: str) -> None:
    judged = judge(scores, text, model)
    assert 0 < judged.p_wrong < 1
    assert judged.tokens == sum(not score.forced for score in scores)
    assert judged.calibrated == (model == MODEL)


@settings(deadline=None)
@given(st.lists(scores_, min_size=1, max_size=40), st.lists(scores_, max_size=5))
def test_forced_tokens_say_nothing(scores: list[TokenScore], forced: list[TokenScore]) -> None:
    with_forced = [*scores, *(TokenScore(s.logprob, s.margin, s.entropy, True) for s in forced)]
    assert judge(with_forced, "", MODEL) == judge(scores, "", MODEL)


@pytest.mark.parametrize("count", [1, 16, 32])
def test_doubtful_tokens_are_likelier_wrong_and_the_plain_rule_agrees(count: int) -> None:
    sure, doubtful = judge([SURE] * count, "Paris", MODEL), judge([DOUBTFUL] * count, "Paris", MODEL)
    assert sure.p_wrong < doubtful.p_wrong or count == 1  # letters of this model say nothing: it guesses
    assert (sure.rule_escalates, doubtful.rule_escalates) == (False, True)


MODELS = st.sampled_from([MODEL, "qwen2.5-coder-1.5b-instruct", "another"])


@settings(deadline=None)
@given(st.lists(scores_, min_size=1, max_size=32), MODELS)
def test_surer_tokens_never_make_an_answer_likelier_wrong(scores: list[TokenScore], model: str) -> None:
    surer = [TokenScore(s.logprob / 2, s.margin + 1, s.entropy / 2, s.forced) for s in scores]
    assert judge(surer, "", model).p_wrong <= judge(scores, "", model).p_wrong + 1e-12


def test_another_model_is_said_to_be_uncalibrated_and_judged_more_cautiously() -> None:
    own, other = judge([SURE] * 16, "", MODEL), judge([SURE] * 16, "", "another")
    assert own.calibrated
    assert not other.calibrated
    assert abs(other.p_wrong - 0.5) < abs(own.p_wrong - 0.5)
    assert judge([SURE] * 16, "", "another", calibration=Calibration(1.0, 0.0, 50)).calibrated


def test_features_of_no_length_bias() -> None:
    short, long = measured([SURE, DOUBTFUL] * 8, ""), measured([SURE, DOUBTFUL] * 16, "")
    differing = [name for name, a, b in zip(FEATURES, short, long, strict=True) if a != pytest.approx(b)]
    assert differing == ["tokens"]
    assert measured([SURE], "I'm sorry, I cannot say")[-1] == 1.0


@settings(deadline=None)
@given(st.floats(1e-6, 1.0), st.floats(1e-6, 1.0))
def test_a_hand_off_pays_for_itself(cost: float, worth: float) -> None:
    threshold = threshold_for(cost, worth)
    assert threshold >= 0.5
    assert threshold * worth >= cost * (1 - 1e-9)
    assert threshold_for(2 * cost, worth) >= threshold
    assert threshold_for(0.0, worth) == threshold_for(None, worth) == 0.5
    assert threshold_for(cost, 0.0) > 1


def test_agreement_looks_past_case_and_marks() -> None:
    assert agreement(["Paris.", "paris", " PARIS!", "Rome"]) == 0.75
    assert agreement(["B", "B", "B", "B"]) == 1.0
    assert agreement([]) == 0.0


@settings(deadline=None)
@given(st.lists(scores_, max_size=3), st.integers(1, 8), st.data())
def test_more_agreement_is_never_less_confidence(
    scores: list[TokenScore], votes: int, data: st.DataObject
) -> None:
    judged = judge(scores, "", MODEL)
    fewer, more = sorted(data.draw(st.lists(st.integers(1, votes), min_size=2, max_size=2)))
    low, high = (with_agreement(judged, n / votes, votes).p_wrong for n in (fewer, more))
    assert 0 < high <= low < 1


# -- the gate


def by_mean(threshold: float = 0.5) -> Gate:
    def judge_(scores: Sequence[TokenScore], text: str) -> Confidence:
        sure = sum(math.exp(score.logprob) for score in scores) / len(scores)
        return Confidence(1 - sure, threshold, len(scores), sure < 0.8)

    return Gate(judge_)


def play(gate: Gate, events: Sequence[Event]) -> list[list[Event]]:
    return [list(gate.feed(event)) for event in events]


def deltas(score: TokenScore, sizes: Sequence[int]) -> list[Event]:
    return [Delta(f"{at} ", scores=(score,) * size) for at, size in enumerate(sizes)]


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=30), st.booleans())
def test_an_answer_is_shown_whole_and_in_order_or_not_at_all(sizes: list[int], sure: bool) -> None:
    gate, events = by_mean(), [*deltas(SURE if sure else DOUBTFUL, sizes), Finished("stop")]
    passed = [event for group in play(gate, events) for event in group]
    shown = [event for event in passed if not isinstance(event, Judged)]
    if gate.hands_off:
        assert (shown, sum(sizes) > 0, sure) == ([], True, False)
        assert len(passed) == 1
    else:
        assert shown == events
        assert sum(isinstance(event, Judged) for event in passed) == (sum(sizes) > 0)
        assert isinstance(passed[0], Judged) or not sum(sizes)


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), min_size=20, max_size=40), st.sampled_from([SURE, DOUBTFUL]))
def test_it_waits_for_enough_tokens_and_no_longer(sizes: list[int], score: TokenScore) -> None:
    gate, events = by_mean(), deltas(score, sizes)
    groups = play(gate, events)
    decided = next((at for at, group in enumerate(groups) if group), None)
    seen = list(accumulate(sizes))
    if decided is None:
        assert seen[-1] < MOST_TOKENS
        return
    assert seen[decided] >= (LEAST_TOKENS if score is SURE else MOST_TOKENS)
    assert decided == 0 or seen[decided - 1] < (LEAST_TOKENS if score is SURE else MOST_TOKENS)


def test_progress_and_notices_do_not_wait() -> None:
    gate = by_mean()
    said: list[Event] = [Progress("prefill", 1, 2, "tokens"), Notice("busy")]
    assert play(gate, said) == [[event] for event in said]
    assert gate.feed(Delta("a", scores=(SURE,))) == ()
    assert gate.feed(Notice("still")) == (Notice("still"),)


def test_a_failure_and_a_tool_call_release_what_was_held() -> None:
    for last in (Failed(BackendCrashed("gone")), ToolCall(0, "1", "f")):
        gate = by_mean()
        gate.feed(Delta("a", scores=(SURE,)))
        assert [e for e in gate.feed(last) if not isinstance(e, Judged)] == [Delta("a", scores=(SURE,)), last]


def test_what_was_handed_off_is_kept_but_never_passed_on() -> None:
    gate = by_mean()
    play(gate, deltas(DOUBTFUL, [8] * 4))
    assert gate.hands_off
    assert gate.held_text == "0 1 2 3 "
    assert gate.feed(Delta("more", scores=(SURE,))) == ()


# -- feedback


def labels(count: int, slope: float, offset: float, seed: int = 0) -> list[Label]:
    drawn = random.Random(seed)
    points = [drawn.uniform(-3, 3) for _ in range(count)]
    return [Label(probability(x), drawn.random() < probability(slope * x + offset)) for x in points]


@settings(deadline=None)
@given(st.lists(st.builds(Label, st.floats(0.0, 1.0), st.booleans()), max_size=LEAST_LABELS - 1))
def test_few_verdicts_change_nothing(few: list[Label]) -> None:
    assert recalibrated(few) == Calibration()


@settings(deadline=None)
@given(st.lists(st.builds(Label, st.floats(0.0, 1.0), st.booleans()), min_size=60, max_size=90))
def test_any_verdicts_give_a_finite_line_that_never_falls(many: list[Label]) -> None:
    line = recalibrated(many)
    assert line.slope >= 0
    assert math.isfinite(line.slope)
    assert math.isfinite(line.offset)


@pytest.mark.parametrize(("slope", "offset"), [(1.0, 0.0), (0.4, 1.0), (1.5, -1.5)])
def test_many_verdicts_find_the_line_they_were_drawn_from(slope: float, offset: float) -> None:
    found = recalibrated(labels(4000, slope, offset))
    assert found.slope == pytest.approx(slope, abs=0.15)
    assert found.offset == pytest.approx(offset, abs=0.15)


def test_more_verdicts_of_wrong_raise_the_chance() -> None:
    plain = judge([SURE] * 16, "", MODEL).p_wrong
    warned = recalibrated([Label(plain, True)] * 60 + [Label(plain, False)] * 10)
    assert judge([SURE] * 16, "", MODEL, calibration=warned).p_wrong > plain


@settings(deadline=None)
@given(st.floats(0, 1))
def test_log_odds_and_probability_are_inverse(chance: float) -> None:
    assert probability(log_odds(chance)) == pytest.approx(chance, abs=1.1e-4)
