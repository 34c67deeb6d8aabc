"""The words beside an answer: what is marked, what is said once, what is never passed over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localchat.card import Card
from localchat.card_text import age_text, cache_text, decision_text, estimate_text, is_plain, marks, summary
from router.decision import Alternative, CacheLabel, Decision, Estimate, Verdict
from router.request import HandedOff, Simulated

HERE, THERE = Estimate("local", "small", 0.5, 4.0, 0.0), Estimate("cloud", "large", 0.5, 12.0, 0.0021)
HARD = Decision("cloud", "large", ("It is hard.",), (Alternative(HERE, "It is hard."),), 0.8, THERE)
EASY = Decision("local", "small", ("It is easy.",), (Alternative(THERE, "It is not needed."),), 0.1, HERE)


def test_the_reason_is_said_once_and_the_other_way_with_its_price() -> None:
    assert decision_text(HARD) == "cloud: It is hard. Local instead: ≈ 4.0 s."
    assert decision_text(EASY) == "local: It is easy. Cloud instead (≈ 12 s, $0.0021): It is not needed."


def test_what_nobody_knows_is_not_called_nothing() -> None:
    assert "unknown" in estimate_text(replace(THERE, cost_usd=None))
    assert "cost unknown" in list(marks(Card(HARD, cost_usd=None)))


def test_a_simulated_answer_is_marked_however_it_ended() -> None:
    simulated = replace(HARD, expected=replace(THERE, simulated=True))
    assert list(marks(Card(simulated)))[:2] == ["cloud", "SIMULATED"]
    whole = Simulated("h100", 3, 12, 0.2, "smollm2", 7, partial=True)
    (mark,) = [mark for mark in marks(Card(simulated, simulated=whole)) if "SIMULATED" in mark]
    assert (
        mark == "SIMULATED h100, batch 12, queue 3, words by smollm2, which read a part of it, 7 tokens late"
    )
    came_back = (HandedOff("cloud", "local", "It was lost."),)
    assert "SIMULATED" not in list(marks(Card(simulated, hand_offs=came_back)))


def test_only_an_answer_that_was_never_in_question_needs_no_story() -> None:
    plain = Card(Decision("local", "small", ("Every answer is to come from this machine.",)))
    assert is_plain(plain)
    failed = replace(plain, verdicts=(Verdict("format", False, "It is no JSON."),))
    assert is_plain(failed)
    assert "failed check: format" in list(marks(failed))
    for told in (
        Card(HARD),
        Card(EASY),
        replace(plain, hand_offs=(HandedOff("local", "cloud", "Too large."),)),
    ):
        assert not is_plain(told)


def test_a_cached_answer_names_question_similarity_threshold_and_age() -> None:
    label = CacheLabel("semantic", 3, "What is the capital of France?", 0.9712, 0.93, 190.0)
    assert cache_text(label) == (
        "cached 3 min ago for “What is the capital of France?” (similarity 0.971, threshold 0.930)"
    )
    assert summary(Card(HARD, cache=label)) == cache_text(label)
    assert "from the cache" in list(marks(Card(HARD, cache=label)))
    exact = replace(label, tier="exact")
    assert cache_text(exact) == "cached 3 min ago, the same question"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5.0, "0 s"), (59.0, "59 s"), (60.0, "1 min"), (7_300.0, "2 h"), (86_400.0, "1 day"), (2e5, "2 days")],
)
def test_ages_are_told_in_the_largest_unit_that_fits(seconds: float, words: str) -> None:
    assert age_text(seconds) == words
