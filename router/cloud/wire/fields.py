"""Reading JSON that others wrote: every field may be absent, of another type, or hostile.

Knows types and sizes, not what a field means.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Json = Mapping[str, Any]
MAX_COUNT = 1 << 40  # tokens; beyond any window there will be
MAX_SAID = 300  # characters of a server's own words that reach a person


class NotAsAgreed(ValueError):
    """The JSON is not what the format says. ``str()`` says what is wrong, in short."""


def loads(text: str | bytes) -> Json:
    """A JSON object; NotAsAgreed for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NotAsAgreed("it is not JSON") from error
    if not isinstance(value, dict):
        raise NotAsAgreed("it is not a JSON object")
    return value


def mapping(value: Json, name: str) -> Json:
    """The object called ``name``, or an empty one."""
    found = value.get(name)
    return found if isinstance(found, dict) else {}


def text(value: Json, name: str) -> str:
    """The text called ``name``, or "". Lone surrogates, which cannot be stored, become U+FFFD."""
    found = value.get(name)
    if not isinstance(found, str):
        return ""
    return found if found.isascii() else clean(found)


def clean(found: str) -> str:
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def count(value: Json, name: str) -> int | None:
    """A count of tokens; None where there is none that makes sense."""
    found = value.get(name)
    return found if type(found) is int and 0 <= found <= MAX_COUNT else None


def seconds(value: Json, name: str) -> float:
    found = value.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return 0.0
    return float(found) if 0 <= found < 1e9 else 0.0


def said(words: object, limit: int = MAX_SAID) -> str:
    """Words of a server as a person may see them: one line, no control characters, short."""
    if not isinstance(words, str):
        return ""
    line = " ".join(words[: 4 * limit].split())
    line = "".join(c for c in clean(line) if c.isprintable())
    return line if len(line) <= limit else line[: limit - 1] + "…"
