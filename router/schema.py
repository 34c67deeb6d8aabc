"""Whether a JSON value is what a JSON schema asks for, and where it is not.

Owns the keywords below, as draft 2020-12 means them; every other keyword is left unchecked. Bounded:
neither a schema that contains itself nor a deep value can go on for ever. ``pattern`` and ``format``
are for a matcher that cannot be made to hang; without one they are left unchecked as well.
https://json-schema.org/draft/2020-12/json-schema-validation
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from router.request import ResponseFormat

Matches = Callable[[ResponseFormat, str], bool]
"""Whether a text is one that the format allows. Raises InvalidRequest for a format that cannot be used."""

MAX_DEPTH = 64  # of values and schemas together
MAX_UNIQUE = 500  # items that are compared with each other

_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and value == value // 1,
}


def first_problem(schema: Any, value: Any, matches: Matches | None = None) -> str:
    """One plain clause, "age is not an integer", or "" for a value that fits."""
    return next(_Check(schema, matches).problems(schema, value, "", 0), "")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class _Check:
    def __init__(self, root: Any, matches: Matches | None) -> None:
        self._root = root
        self._matches = matches

    def problems(self, schema: Any, value: Any, at: str, depth: int) -> Iterator[str]:
        if schema is False:
            yield f"{at or 'the value'} is not allowed"
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return
        yield from _of_value(schema, value, at or "the value")
        if isinstance(value, str):
            yield from self._of_text(schema, value, at or "the value")
        if isinstance(value, list):
            yield from self._of_list(schema, value, at, depth)
        if isinstance(value, dict):
            yield from self._of_object(schema, value, at, depth)
        yield from self._of_parts(schema, value, at, depth)

    def _fits(self, schema: Any, value: Any, depth: int) -> bool:
        return next(self.problems(schema, value, "", depth + 1), None) is None

    def _of_text(self, schema: Mapping[str, Any], value: str, at: str) -> Iterator[str]:
        if len(value) < schema.get("minLength", 0) or len(value) > schema.get("maxLength", len(value)):
            yield f"{at} is {len(value)} characters long"
        asked = {key: schema[key] for key in ("pattern", "format") if key in schema}
        if asked and self._matches:
            wanted = ResponseFormat("json_schema", json.dumps({"type": "string", **asked}))
            if not self._matches(wanted, json.dumps(value, ensure_ascii=False)):
                yield f"{at} is not of the form {' or '.join(map(str, asked.values()))}"

    def _of_list(self, schema: Mapping[str, Any], value: list[Any], at: str, depth: int) -> Iterator[str]:
        if len(value) < schema.get("minItems", 0) or len(value) > schema.get("maxItems", len(value)):
            yield f"{at or 'the value'} has {len(value)} items"
        first = value[:MAX_UNIQUE] if schema.get("uniqueItems") else []
        if any(_same(a, b) for i, a in enumerate(first) for b in first[:i]):
            yield f"{at or 'the value'} has an item twice"
        prefix = schema.get("prefixItems", [])
        for index, item in enumerate(value):
            part = prefix[index] if index < len(prefix) else schema.get("items", True)
            yield from self.problems(part, item, f"{at}[{index}]", depth + 1)

    def _of_object(
        self, schema: Mapping[str, Any], value: Mapping[str, Any], at: str, depth: int
    ) -> Iterator[str]:
        inner = f"{at}." if at else ""
        yield from (f"{inner}{name} is missing" for name in schema.get("required", ()) if name not in value)
        known = schema.get("properties", {})
        # Which names a pattern allows is not looked into: then none is one too many.
        others = True if "patternProperties" in schema else schema.get("additionalProperties", True)
        for name, item in value.items():
            if others is False and name not in known:
                yield f"{inner}{name} is one too many"
            else:
                yield from self.problems(known.get(name, others), item, f"{inner}{name}", depth + 1)

    def _of_parts(self, schema: Mapping[str, Any], value: Any, at: str, depth: int) -> Iterator[str]:
        if "$ref" in schema:
            yield from self.problems(self._referred(schema["$ref"]), value, at, depth + 1)
        for part in schema.get("allOf", ()):
            yield from self.problems(part, value, at, depth + 1)
        place = at or "the value"
        if "anyOf" in schema and not any(self._fits(part, value, depth) for part in schema["anyOf"]):
            yield f"{place} is none of the allowed kinds"
        if "oneOf" in schema and sum(self._fits(part, value, depth) for part in schema["oneOf"]) != 1:
            yield f"{place} is not exactly one of the allowed kinds"
        if "not" in schema and self._fits(schema["not"], value, depth):
            yield f"{place} is what it must not be"

    def _referred(self, reference: Any) -> Any:
        """A part of the same schema; one elsewhere is not fetched, and allows everything."""
        if not isinstance(reference, str) or not reference.startswith("#"):
            return True
        found = self._root
        for name in filter(None, reference[1:].split("/")):
            name = name.replace("~1", "/").replace("~0", "~")
            found = found.get(name, True) if isinstance(found, dict) else True
        return found


def _of_value(schema: Mapping[str, Any], value: Any, at: str) -> Iterator[str]:
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_TYPES[kind](value) for kind in kinds if kind in _TYPES):
        yield f"{at} is not {' or '.join(kinds)}"
    if "const" in schema and not _same(value, schema["const"]):
        yield f"{at} is not {json.dumps(schema['const'])}"
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        yield f"{at} is none of the allowed values"
    if _is_number(value):
        yield from _of_number(schema, value, at)


def _of_number(schema: Mapping[str, Any], value: float, at: str) -> Iterator[str]:
    bounds = (
        value >= schema.get("minimum", value),
        value <= schema.get("maximum", value),
        "exclusiveMinimum" not in schema or value > schema["exclusiveMinimum"],
        "exclusiveMaximum" not in schema or value < schema["exclusiveMaximum"],
    )
    if not all(bounds):
        yield f"{at} is out of bounds"
    step = schema.get("multipleOf")
    if step and abs(value / step - round(value / step)) > 1e-9:  # 0.3 is a multiple of 0.1 to a person
        yield f"{at} is not a multiple of {step}"


def _same(one: Any, other: Any) -> bool:
    """As JSON compares: 1 is 1.0, but true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)
