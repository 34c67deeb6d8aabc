"""Whether an answer would last: not for one time, place or person only, and not meant to be new each time.

Pure. The words are in perishable.toml, by language.
"""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files

ALWAYS = "en"  # people mix English words into their own language
CREATED_WITHIN_WORDS = 5  # "write a very short and sad poem"

_REASONS = {
    "time_or_place": "the answer depends on time or place",
    "person": "the answer depends on who asks",
    "creative": "every answer is meant to be a new one",
}
# "How do I write a letter?" asks for instructions, not for a letter.
_INSTRUCTIONS = re.compile(r"\W*(?:how|what|why|when)\b", re.IGNORECASE)


def perishable(text: str, language: str) -> str:
    """Why the answer to ``text`` does not last, in words; "" where it does."""
    for each in dict.fromkeys((ALWAYS, language)):
        patterns = _patterns().get(each, {})
        for kind, reason in _REASONS.items():
            if kind in patterns and patterns[kind].search(text):
                if kind == "creative" and _INSTRUCTIONS.match(text):
                    continue
                return reason
    return ""


@cache
def _patterns() -> dict[str, dict[str, re.Pattern[str]]]:
    text = (files("router.cache") / "perishable.toml").read_text(encoding="utf-8")
    found: dict[str, dict[str, re.Pattern[str]]] = {}
    for language, lists in tomllib.loads(text).items():
        words = {kind: "|".join(lines.split("\n")[:-1]) for kind, lines in lists.items()}
        if "creation" in words:
            between = rf"(?:\s+\S+){{0,{CREATED_WITHIN_WORDS}}}?\s+"
            words["creative"] += rf"|(?:{words['creating']}){between}(?:{words['creation']})"
        found[language] = {
            kind: re.compile(rf"(?<!\w)(?:{words[kind]})(?!\w)", re.IGNORECASE) for kind in _REASONS
        }
    return found
