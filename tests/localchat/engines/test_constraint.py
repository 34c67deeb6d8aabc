"""Schemas, expressions and grammars: whatever the logits, the answer follows them."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localchat.engines.constraint import Constraint, matches
from router.errors import InvalidRequest
from router.request import ResponseFormat
from tests.localchat.engines.fake_runtime import CONTROLS, END, VOCABULARY, FakeRuntime

TOKENIZER: Any = FakeRuntime().constraint_tokenizer()
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"enum": ["cat", "dog", None, 3]},
        "tags": {"type": "array", "items": {"type": "boolean"}, "maxItems": 3},
        "inner": {"$ref": "#/$defs/point"},
    },
    "required": ["name", "age", "kind", "inner"],
    "additionalProperties": False,
    "$defs": {
        "point": {
            "type": "object",
            "properties": {"x": {"type": "number"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
}
SCHEMAS: dict[str, Any] = {
    "object": PERSON,
    "string": {"type": "string", "pattern": "^[a-z]{2,4}$"},
    "choice": {"anyOf": [{"type": "integer", "maximum": 9}, {"const": {"a": [1, 2]}}]},
    "list": {"type": "array", "items": {"enum": [1, "zwei", "é"]}, "minItems": 2, "maxItems": 4},
    "nothing but null": {"type": "null"},
}
EXPRESSIONS = (
    r"[ab]{3,5}",
    r"(yes|no|perhaps)",
    r"\d{4}-\d\d-\d\d",
    r"é+x",
    r"",
    r"a?b?",
    r"the (cat|user)\n",
)
GBNF = 'root ::= "yes" | "no" ws answer\nws ::= " "*\nanswer ::= [0-9]+ "."\n'
LARK = 'start: "I " verb " " noun\nverb: "like" | "eat"\nnoun: /[a-z]{3,6}/\n'


def constraint(kind: str, source: str) -> Constraint:
    return Constraint(ResponseFormat(kind, source), TOKENIZER, len(VOCABULARY))  # type: ignore[arg-type]  # made from words


def follow(kind: str, source: str, seed: int, most: int = 400) -> tuple[str, list[bool]]:
    """A random walk through what is allowed, ending as soon as it may; and what was forced."""
    allowed, random = constraint(kind, source), np.random.default_rng(seed)
    said, forced = bytearray(), []
    while not allowed.complete:
        logits = random.normal(0, 1, len(VOCABULARY)).astype(np.float32)
        logits[END] = 9.0
        only = allowed.apply(logits)
        token = int(logits.argmax())
        assert np.isfinite(logits[token])
        assert only == (np.count_nonzero(np.isfinite(logits)) == 1)
        if token == END:
            break
        forced.append(only)
        said += VOCABULARY[token]
        allowed.accept(token)
        assert len(forced) < most, said
    return said.decode(), forced


@pytest.mark.parametrize("name", SCHEMAS)
def test_json_follows_its_schema(name: str) -> None:
    for seed in range(8):
        text, _ = follow("json_schema", json.dumps(SCHEMAS[name]), seed)
        jsonschema.validate(json.loads(text), SCHEMAS[name])


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_text_matches_its_expression(expression: str) -> None:
    for seed in range(8):
        text, _ = follow("regex", expression, seed)
        assert re.fullmatch(expression, text), text


def test_text_follows_a_gbnf_grammar() -> None:
    texts = [follow("gbnf", GBNF, seed)[0] for seed in range(12)]
    assert all(re.fullmatch(r"yes|no *[0-9]+\.", text) for text in texts)
    assert len(set(texts)) > 1


def test_text_follows_a_lark_grammar() -> None:
    for seed in range(8):
        assert re.fullmatch(r"I (like|eat) [a-z]{3,6}", follow("lark", LARK, seed)[0])


def test_forced_tokens_are_those_without_a_choice() -> None:
    text, forced = follow("regex", r"[xy]=zz", 1)
    assert len(text) == len(forced)
    assert forced == [False, True, True, True]


def test_no_control_token_is_ever_allowed_but_the_end() -> None:
    allowed, logits = constraint("regex", r"(?s:.){1,50}"), np.zeros(len(VOCABULARY), np.float32)
    for _ in range(20):
        logits[:] = 0.0
        allowed.apply(logits)
        controls = logits[256 : 256 + len(CONTROLS)]
        assert not np.isfinite(np.delete(controls, END - 256)).any()
        allowed.accept(ord("x"))


def test_a_mask_only_takes_away() -> None:
    logits = np.arange(len(VOCABULARY), dtype=np.float32)
    constraint("regex", "[a-c]+").apply(logits)
    assert logits[97:100].tolist() == [97.0, 98.0, 99.0]
    assert np.isneginf(logits[100:256]).all()


def test_a_token_that_is_not_allowed_is_reported() -> None:
    allowed = constraint("regex", "abc")
    with pytest.raises(InvalidRequest, match="regular expression cannot be used"):
        allowed.accept(ord("z"))


@pytest.mark.parametrize(
    ("kind", "source", "named"),
    [
        ("json_schema", "{", "JSON schema"),
        ("json_schema", "", "JSON schema"),
        ("json_schema", '{"type": "nosuch"}', "JSON schema"),
        ("json_schema", '{"$ref": "#/nowhere"}', "JSON schema"),
        ("json_schema", '{"type": "string", "pattern": "("}', "JSON schema"),
        ("json_schema", '{"not": {"type": "string"}}', "JSON schema"),
        ("json_schema", "[1, 2]", "JSON schema"),
        ("json_schema", "false", "JSON schema"),
        ("regex", "(", "regular expression"),
        ("regex", "[", "regular expression"),
        ("regex", "a{3,1}", "regular expression"),
        ("regex", "(?P<x", "regular expression"),
        ("regex", r"(a)\1", "regular expression"),
        ("regex", "\ud800", "regular expression"),
        ("lark", "", "grammar"),
        ("lark", "start: nosuch", "grammar"),
        ("lark", 'other: "x"', "grammar"),
        ("lark", "start: /(/", "grammar"),
        ("gbnf", "", "grammar"),
        ("gbnf", "root ::= nosuch", "grammar"),
        ("gbnf", 'root ::= "x', "grammar"),
        ("gbnf", 'other ::= "x"', "grammar"),
        ("json_schema", "[" * 100_000, "JSON schema"),
        ("json_schema", '{"anyOf": [' * 2000 + "{}" + "]}" * 2000, "JSON schema"),
        ("regex", "(" * 100_000 + ")" * 100_000, "regular expression"),
    ],
    ids=lambda value: str(value)[:30].encode("ascii", "backslashreplace").decode(),
)
def test_what_does_not_compile_is_refused_by_name(kind: str, source: str, named: str) -> None:
    with pytest.raises(InvalidRequest, match=f"The {named} cannot be used: .+") as caught:
        constraint(kind, source)
    assert len(str(caught.value)) < 1000
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("kind", "source", "named"),
    [
        ("regex", r"[^\x00-\U0010FFFF]", "regular expression"),
        ("gbnf", "root ::= root", "grammar"),
        ("lark", 'start: start "a"', "grammar"),
    ],
)
def test_what_nothing_can_match_is_refused_before_the_first_token(kind: str, source: str, named: str) -> None:
    with pytest.raises(InvalidRequest, match=f"The {named} cannot be used: .+"):
        constraint(kind, source).apply(np.zeros(len(VOCABULARY), np.float32))


grammar_like = st.text("ab\"'/\\()[]{}|*+?.:=,<>@%~&^$!-_ \n09", max_size=25)


@given(
    st.sampled_from(["json_schema", "regex", "lark", "gbnf"]),
    st.sampled_from(["", "root ::= ", "start: ", '{"type": ']),
    grammar_like | st.text(max_size=20),
)
@settings(deadline=None)
def test_any_text_compiles_or_is_refused(kind: str, head: str, tail: str) -> None:
    # Any other error would end the worker.
    with contextlib.suppress(InvalidRequest):
        constraint(kind, head + tail).apply(np.zeros(len(VOCABULARY), np.float32))


@pytest.mark.parametrize("expression", EXPRESSIONS)
@given(text=st.text("abx é\n", max_size=6))
def test_a_whole_text_is_told_to_match_or_not(expression: str, text: str) -> None:
    assert matches(ResponseFormat("regex", expression), text) == bool(re.fullmatch(expression, text))


def test_grammars_and_forms_of_text_are_matched_and_hostile_ones_end() -> None:
    assert matches(ResponseFormat("lark", LARK), "I like cats")
    assert not matches(ResponseFormat("lark", LARK), "I like")
    assert matches(ResponseFormat("gbnf", GBNF), "no  12.")
    assert not matches(ResponseFormat("json_schema", '{"type": "string", "pattern": "^[a-z]{2}$"}'), '"abc"')
    assert not matches(ResponseFormat("regex", "(a+)+b"), "a" * 5_000)
    with pytest.raises(InvalidRequest):
        matches(ResponseFormat("regex", "("), "x")
