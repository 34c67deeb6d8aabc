"""Rules that a person writes: read strictly, and held against whole words."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from router.errors import InvalidRules
from router.facts import FactRule, parse_rules

CAPITAL = """
[[rule]]
name = "capital of Australia"
question = ["capital", "Australia"]
answer = ["Canberra"]
never = ["Sydney"]

[[rule]]
pattern = "how many (days|hours)"
answer = ["365 days", "8,760 hours"]
"""


@pytest.fixture
def rules() -> tuple[FactRule, ...]:
    return parse_rules(CAPITAL, "facts.toml")


def test_a_rule_concerns_questions_with_all_its_words(rules: tuple[FactRule, ...]) -> None:
    capital, year = rules
    assert capital.concerns("What's the CAPITAL of australia?")
    assert not capital.concerns("What is the capital of Austria?")
    assert not capital.concerns("capitals of Australia")
    assert year.concerns("How many hours has a year?")
    assert year.name == "how many (days|hours)"


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ("It is Canberra.", ""),
        ("CANBERRA", ""),
        ("Melbourne, I think.", "The answer does not say “Canberra”."),
        ("Canberra, not Sydney.", "The answer says “Sydney”, which the rule excludes."),
        ("Canberras", "The answer does not say “Canberra”."),
    ],
)
def test_an_answer_must_say_one_of_these_and_none_of_those(
    rules: tuple[FactRule, ...], answer: str, detail: str
) -> None:
    verdict = rules[0].verdict(answer)
    assert (verdict.validator, verdict.passed, verdict.detail) == (
        "fact: capital of Australia",
        not detail,
        detail,
    )


def test_phrases_and_numbers_are_whole(rules: tuple[FactRule, ...]) -> None:
    assert rules[1].verdict("A year has 8,760\nhours.").passed
    assert not rules[1].verdict("1365 days").passed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]\n", "facts.toml is not valid TOML"),
        ("x = 1", "holds something other than"),
        ("rule = 1", "holds something other than"),
        ("rule = [1]", "rule 1: it is not a table"),
        ('[[rule]]\nanswer = ["a"]', "rule 1: it needs either 'question' or 'pattern'"),
        ('[[rule]]\nquestion = ["a"]\npattern = "a"\nanswer = ["a"]', "either 'question' or 'pattern'"),
        ('[[rule]]\nquestion = ["a"]', "it needs 'answer' or 'never'"),
        ('[[rule]]\nquestion = "a"\nanswer = ["a"]', "'question' is not a list of words"),
        ('[[rule]]\nquestion = ["?"]\nanswer = ["a"]', "'question' is not a list of words"),
        ('[[rule]]\nquestions = ["a"]\nanswer = ["a"]', "there is no 'questions'; known are answer, name,"),
        ('[[rule]]\npattern = "("\nanswer = ["a"]', "'pattern' is no regular expression"),
        ('[[rule]]\npattern = 1\nanswer = ["a"]', "'pattern' is not text"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(InvalidRules, match=r"facts\.toml") as caught:
        parse_rules(text, "facts.toml")
    assert message in str(caught.value)
    assert caught.value.next_step


def test_the_guide_shows_rules_that_work() -> None:
    guide = (Path(__file__).parents[2] / "docs/validation.md").read_text(encoding="utf-8")
    example = "".join(line for line in guide.splitlines(keepends=True) if line.startswith("    "))
    capital, year = parse_rules(textwrap.dedent(example), "the guide")
    assert capital.verdict("Canberra").passed
    assert year.concerns("How many hours has a year?")


def test_no_rules_are_no_error() -> None:
    assert parse_rules("", "facts.toml") == ()
