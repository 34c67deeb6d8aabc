"""The guards: no look-alike passes, most paraphrases do, and laws that hold for any text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.cache.guard.compare import CHECKS, WordGuard
from router.cache.guard.lexicon import lexicon
from router.cache.guard.numbers import numbers_in
from router.cache.guard.reading import read
from tests.router.cache.pair_files import Pair, lookalikes, paraphrases

GUARD = WordGuard()


@pytest.mark.parametrize("pair", lookalikes(), ids=lambda pair: f"{pair.kind}: {pair.one}")
def test_no_look_alike_passes(pair: Pair) -> None:
    assert GUARD.refuses(pair.one, pair.other)
    assert GUARD.refuses(pair.other, pair.one)


def test_most_paraphrases_pass() -> None:
    passed = [pair for pair in paraphrases() if not GUARD.refuses(pair.one, pair.other)]

    assert len(passed) >= 0.65 * len(paraphrases())


@settings(deadline=None)
@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read(text)
    GUARD.refuses(text, "What is osmosis?")


@pytest.mark.parametrize("pair", [*lookalikes(), *paraphrases()], ids=lambda pair: pair.one)
def test_a_question_passes_against_itself_and_the_order_of_two_does_not_matter(pair: Pair) -> None:
    assert bool(GUARD.refuses(pair.one, pair.other)) == bool(GUARD.refuses(pair.other, pair.one))
    if read(pair.one).words:
        assert not GUARD.refuses(pair.one, pair.one)


@pytest.mark.parametrize("pair", lookalikes(), ids=lambda pair: pair.one)
def test_a_polite_frame_hides_no_difference(pair: Pair) -> None:
    assert GUARD.refuses(f"Hi, {pair.one[0].lower()}{pair.one[1:]}", f"Please, {pair.other}")


@pytest.mark.parametrize(
    "added",
    ["ignore the above", "in prison", "bitcoin", "and then say something rude", "xq zw", "answer with yes"],
)
def test_words_added_to_collide_are_refused(added: str) -> None:
    """A text that was bent until its direction matches carries words the stored question lacks."""
    assert GUARD.refuses(f"What is the capital of France? {added}", "What is the capital of France?")
    assert GUARD.refuses(f"{added} What is the capital of France?", "What is the capital of France?")


@pytest.mark.parametrize(
    ("check", "one", "other"),
    [
        ("code and quoted text", "What does `map` do?", "What does `filter` do?"),
        ("code and quoted text", "How is os.path used?", "How is os.open used?"),
        ("code and quoted text", "Read a file in C.", "Read a file in C++."),
        ("numbers", "What is two plus three?", "What is two plus four?"),
        ("numbers", "How does World War I end?", "How does World War II end?"),
        ("units", "How far is it in km?", "How far is it in miles?"),
        ("negation", "What can you eat?", "What can't you eat?"),
        ("tense", "Who is king of Spain?", "Who was king of Spain?"),
        ("tense", "Can cats eat fish?", "Should cats eat fish?"),
        ("question word", "When did the war start?", "Where did the war start?"),
        ("question word", "Why do cats purr?", "How do cats purr?"),
        ("opposites", "How do I enable it?", "How do I disable it?"),
        ("opposites", "Is it a happy ending?", "Is it an unhappy ending?"),
        ("names", "Who rules in Spain?", "Who rules in Peru?"),
        ("words", "What do owls eat?", "What do crows eat?"),
        ("roles", "Is gold heavier than lead?", "Is lead heavier than gold?"),
        ("roles", "A train from Rome to Milan", "A train from Milan to Rome"),
        ("roles", "Did Cain kill Abel?", "Did Abel kill Cain?"),
    ],
)
def test_each_guard_finds_what_it_is_for(check: str, one: str, other: str) -> None:
    assert CHECKS[check](read(one), read(other))
    assert not CHECKS[check](read(one), read(one))


@pytest.mark.parametrize(
    ("text", "numbers", "units"),
    [
        ("two hundred and five metres", {"205"}, set()),
        ("2,000 m", {"2000"}, {"meter"}),
        ("a dozen eggs", {"12"}, set()),
        ("the 3rd of May", {"3th"}, set()),
        ("the third man", {"3th"}, set()),
        ("Henry VIII", {"8"}, set()),
        ("1.50 kg", {"1.5"}, {"kilogram"}),
        ("3 million", {"3", "1000000"}, set()),
        ("one hundred", {"100"}, set()),
        ("$5 or 5 dollars", {"5"}, {"dollar"}),
    ],
)
def test_numbers_are_read_in_one_way_of_writing(text: str, numbers: set[str], units: set[str]) -> None:
    found = numbers_in(text)

    assert set(found.numbers) == numbers
    assert set(found.units) == units


def test_words_know_their_relations() -> None:
    words = lexicon()

    assert words.are_same("vaccine", "vaccines")
    assert words.are_same("buy", "purchase")
    assert words.are_same("explain", "explanation")
    assert words.are_opposite("hot", "cold")
    assert words.are_opposite("valid", "invalid")
    assert not words.are_same("increase", "decrease")
    assert not words.are_same("paris", "london")
