"""Our reading of JSON schemas against the reference implementation's, for every keyword we own."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.schema import first_problem

NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.one_of(st.integers(-5, 5), st.sampled_from([0.5, 1.0, -2.5]))
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.text("ab", max_size=3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["null", "boolean", "string", "array", "object", "number", "integer"])
COUNTS = st.integers(0, 3)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=2, unique=True)),
            "const": VALUES,
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "minimum": NUMBERS,
            "exclusiveMaximum": NUMBERS,
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": COUNTS,
            "maxLength": COUNTS,
            "minItems": COUNTS,
            "maxItems": COUNTS,
            "uniqueItems": st.booleans(),
            "items": inner,
            "prefixItems": parts,
            "properties": st.dictionaries(NAMES, inner, max_size=2),
            "required": st.lists(NAMES, max_size=2, unique=True),
            "additionalProperties": inner,
            "allOf": parts,
            "anyOf": parts,
            "oneOf": parts,
            "not": inner,
            "$ref": st.just("#/$defs/number"),
        },
    )


SCHEMAS = st.recursive(st.booleans() | st.fixed_dictionaries({"type": TYPES}), keywords, max_leaves=8)


@given(SCHEMAS, VALUES)
def test_it_agrees_with_the_reference(schema: Any, value: Any) -> None:
    if isinstance(schema, dict):
        schema = {**schema, "$defs": {"number": {"type": "number", "maximum": 3}}}
    reference = jsonschema.Draft202012Validator(schema)
    assert (first_problem(schema, value) == "") == reference.is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": "x"}, "a is not integer"),
        ({"properties": {"a": {"items": {"required": ["b"]}}}}, {"a": [{"b": 1}, {}]}, "a[1].b is missing"),
        ({"additionalProperties": False}, {"a": 1}, "a is one too many"),
        ({"enum": [1, 2]}, 3, "the value is none of the allowed values"),
        ({"type": ["string", "null"]}, 1, "the value is not string or null"),
        ({"maxLength": 1}, "abc", "the value is 3 characters long"),
    ],
)
def test_a_problem_says_where_it_is(schema: Any, value: Any, problem: str) -> None:
    assert first_problem(schema, value) == problem


def test_a_schema_that_contains_itself_ends() -> None:
    assert first_problem({"$ref": "#"}, 1) == ""
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["id"]}
    assert first_problem(tree, {"id": 1, "next": {"next": {}}}) == "next.id is missing"
    deep: Any = {}
    for _ in range(500):
        deep = {"id": 1, "next": deep}
    first_problem(tree, deep)


def test_text_forms_are_for_a_matcher() -> None:
    schema = {"pattern": "^[a-z]+$", "format": "date"}
    assert first_problem(schema, "X") == ""
    asked: list[tuple[str, str]] = []

    def matches(wanted: Any, text: str) -> bool:
        asked.append((wanted.source, text))
        return False

    assert first_problem(schema, "X", matches) == "the value is not of the form ^[a-z]+$ or date"
    assert asked == [('{"type": "string", "pattern": "^[a-z]+$", "format": "date"}', '"X"')]
