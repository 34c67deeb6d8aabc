"""What a person knows to be right: rules in a small TOML file that answers are held against.

Owns the file's form and how words are compared. A rule::

    [[rule]]
    name = "capital of Australia"
    question = ["capital", "Australia"]  # all of these words are in the question
    pattern = "capital.*australia"       # or, instead: this expression is
    answer = ["Canberra"]                # one of these must be in the answer
    never = ["Sydney", "Melbourne"]      # none of these may be

Words are whole words, in any case. Pure: reads text that somebody else has opened.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from router.decision import Verdict
from router.errors import InvalidRules

LONGEST_QUESTION = 10_000  # characters of it that an expression, which may backtrack, gets to see
_WORD = re.compile(r"[\w%$€£+-]+")
_KEYS = {"name", "question", "pattern", "answer", "never"}


@dataclass(frozen=True, slots=True)
class FactRule:
    name: str
    question: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    answer: tuple[str, ...] = ()
    never: tuple[str, ...] = ()

    def concerns(self, question: str) -> bool:
        if self.pattern:
            return self.pattern.search(question[:LONGEST_QUESTION]) is not None
        words = _words(question)
        return all(_words(each) in words for each in self.question)

    def verdict(self, answer: str) -> Verdict:
        words = _words(answer)
        forbidden = next((each for each in self.never if _words(each) in words), None)
        if forbidden is not None:
            return Verdict(
                f"fact: {self.name}", False, f"The answer says “{forbidden}”, which the rule excludes."
            )
        if self.answer and not any(_words(each) in words for each in self.answer):
            wanted = " or ".join(f"“{each}”" for each in self.answer)
            return Verdict(f"fact: {self.name}", False, f"The answer does not say {wanted}.")
        return Verdict(f"fact: {self.name}", True)


def parse_rules(text: str, where: str) -> tuple[FactRule, ...]:
    """The rules in ``text``, which came from ``where``. Raises InvalidRules, naming the wrong one."""
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidRules(f"{where} is not valid TOML: {error}.", "Correct that line.") from error
    rows = table.pop("rule", [])
    if table or not isinstance(rows, list):
        raise InvalidRules(f"{where} holds something other than [[rule]].", "Write each rule below [[rule]].")
    return tuple(_rule(row, f"{where}, rule {number}") for number, row in enumerate(rows, 1))


def _rule(row: Any, where: str) -> FactRule:
    for problem in _problems(row):
        raise InvalidRules(f"{where}: {problem}.", "docs/validation.md has an example.")
    name = row.get("name") or " ".join(row.get("question", ())) or row["pattern"]
    lists = {key: tuple(row.get(key, ())) for key in ("question", "answer", "never")}
    return FactRule(name=name, pattern=_expression(row.get("pattern"), where), **lists)


def _problems(row: Any) -> Iterator[str]:
    if not isinstance(row, dict):
        yield "it is not a table"
        return
    yield from (
        f"there is no {key!r}; known are {', '.join(sorted(_KEYS))}" for key in row if key not in _KEYS
    )
    for key in ("name", "pattern"):
        if not isinstance(row.get(key, ""), str):
            yield f"{key!r} is not text"
    for key in ("question", "answer", "never"):
        given = row.get(key, [])
        if not isinstance(given, list) or not all(
            isinstance(each, str) and _words(each).strip() for each in given
        ):
            yield f"{key!r} is not a list of words"
    if bool(row.get("question")) == bool(row.get("pattern")):
        yield "it needs either 'question' or 'pattern'"
    if not (row.get("answer") or row.get("never")):
        yield "it needs 'answer' or 'never'"


def _expression(pattern: str | None, where: str) -> re.Pattern[str] | None:
    try:
        return re.compile(pattern, re.IGNORECASE) if pattern else None
    except re.error as error:
        raise InvalidRules(f"{where}: 'pattern' is no regular expression: {error}.", "Correct it.") from error


def _words(text: str) -> str:
    """Its words, each between spaces, so that one within another is not found."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return f" {' '.join(_WORD.findall(folded))} "
