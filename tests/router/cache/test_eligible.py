"""What is never kept and never answered from the cache."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from router.cache.eligible import why_not_asked, why_not_kept
from router.cache.language import language_of
from router.cache.perishable import perishable as perishable_in
from router.request import ChatRequest, Finished, FinishReason, Message, Tools
from tests.router.cache.fakes import FINISHED, question
from tests.router.cache.pair_files import paraphrases


def nobody(text: str) -> bool:
    return False


def asked(request: ChatRequest, *, fresh: bool = False) -> str:
    return why_not_asked(request, language="en", fresh=fresh, has_personal_data=nobody)


def perishable(text: str) -> str:
    return perishable_in(text, language_of(text))


def test_an_ordinary_question_may_be_answered_from_the_cache() -> None:
    assert asked(question("What is osmosis?")) == ""


def test_an_explicit_regenerate_is_never_served() -> None:
    assert asked(question("What is osmosis?"), fresh=True)


def test_only_low_temperatures_are_served() -> None:
    assert asked(question("What is osmosis?", temperature=0.3)) == ""
    assert asked(question("What is osmosis?", temperature=0.31))


def test_a_hit_never_feeds_tools() -> None:
    request = question("What is osmosis?")
    call = Message("assistant", "", tool_calls='[{"id": "1"}]')
    result = Message("tool", "4", tool_call_id="1")

    assert asked(replace(request, tools=Tools("[]")))
    assert asked(question("And now?", call))
    assert asked(question("And then?", result))


def test_the_beginning_of_an_answer_is_no_question() -> None:
    assert asked(ChatRequest((Message("user", "Count."), Message("assistant", "One, "))))
    assert asked(ChatRequest(()))
    assert asked(question("  \n "))
    assert asked(question("long " * 10_000))


def test_personal_data_anywhere_in_the_payload_counts() -> None:
    request = question("What is it?", Message("user", "SECRET"), Message("assistant", "Yes."))

    assert why_not_asked(request, language="en", fresh=False, has_personal_data=lambda text: "SECRET" in text)
    assert why_not_kept("SECRET", FINISHED, lambda text: "SECRET" in text)


@pytest.mark.parametrize(
    "text",
    [
        "What is the weather in Rome?", "Who won yesterday?", "What time is it in Tokyo?",
        "What are the latest headlines?", "Which pharmacies near me are open?", "Is the shop still open?",
        "What is the current price of gold?", "What happened three days ago?", "What's on this weekend?",
        "Wie wird das Wetter morgen?", "Quel temps fait-il aujourd'hui ?", "¿Qué hora es ahora?",
    ],
)  # fmt: skip
def test_questions_of_time_and_place_are_never_served(text: str) -> None:
    assert "time or place" in perishable(text)


@pytest.mark.parametrize(
    "text",
    [
        "What is my balance?", "Where is the office if I live in Bonn?", "How old am I?", "I'm 40, what now?",
        "What do you know about us?", "Summarise our contract.", "I have a fever.",
        "Was soll ich mit meinem Hund machen?",
    ],
)  # fmt: skip
def test_questions_that_depend_on_who_asks_are_never_served(text: str) -> None:
    assert perishable(text)


@pytest.mark.parametrize(
    "text",
    [
        "Write a poem about autumn.", "Tell me a joke.", "Suggest five names for a cat.", "Surprise me.",
        "Give me ideas for a party.", "Rewrite this sentence.", "Pick a random number.",
        "Compose a short cover letter.", "Schreib mir ein Gedicht.",
    ],
)  # fmt: skip
def test_where_every_answer_is_meant_to_be_new_nothing_is_served(text: str) -> None:
    assert perishable(text)


def test_common_questions_are_not_taken_for_perishable() -> None:
    texts = [text for pair in paraphrases() for text in (pair.one, pair.other)]
    refused = [text for text in texts if perishable(text)]

    assert len(refused) <= 0.02 * len(texts), refused


@pytest.mark.parametrize("text", ["What is the actual meaning of ora?", "Who was Mia Hamm?", "What is mon?"])
def test_words_of_other_languages_mean_nothing_in_english(text: str) -> None:
    assert perishable(text) == ""


def test_a_language_whose_words_are_not_known_is_left_alone() -> None:
    assert why_not_asked(question("x"), language="other", fresh=False, has_personal_data=nobody)


def test_a_follow_up_perishes_with_what_it_follows() -> None:
    before = (Message("user", "What is the weather in Rome?"), Message("assistant", "Sunny."))

    assert asked(question("And in Paris?", *before))


@pytest.mark.parametrize("reason", get_args(FinishReason))
def test_only_an_answer_that_ended_by_itself_is_kept(reason: FinishReason) -> None:
    assert (why_not_kept("Yes.", Finished(reason), nobody) == "") == (reason == "stop")


def test_an_empty_or_endless_answer_is_not_kept() -> None:
    assert why_not_kept(" \n", FINISHED, nobody)
    assert why_not_kept("a" * 300_000, FINISHED, nobody)


def test_what_is_no_text_is_not_kept() -> None:
    assert asked(question("What is \ud800?"))
    assert why_not_kept("It is \ud800.", FINISHED, nobody)
