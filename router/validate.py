"""Judges a whole answer, whoever gave it: this machine, a cloud, the cache.

Owns which checks there are and what they say. Does not know whether an answer is true, on the
point or kind: beyond the rules that a person wrote (:mod:`router.facts`) nothing here can know
(docs/validation.md). A verdict is shown and recorded; it changes nothing by itself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from router.decision import Verdict
from router.errors import InvalidRequest
from router.facts import FactRule
from router.privacy import scan_text
from router.privacy.scanning import texts
from router.request import ChatRequest, ResponseFormat
from router.schema import Matches, first_problem


def validate(
    request: ChatRequest, answer: str, rules: Sequence[FactRule] = (), matches: Matches | None = None
) -> tuple[Verdict, ...]:
    """One verdict by each check that has something to look at.

    ``matches`` knows regular expressions and grammars (the engine's); without it only JSON is checked.
    """
    question = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
    return tuple(_verdicts(request, question, answer, rules, matches))


def failed(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    return tuple(verdict for verdict in verdicts if not verdict.passed)


def _verdicts(
    request: ChatRequest, question: str, answer: str, rules: Sequence[FactRule], matches: Matches | None
) -> Iterator[Verdict]:
    if not answer.strip():
        yield Verdict("not empty", False, "The answer is empty.")
        return
    if request.response_format and (request.response_format.kind == "json_schema" or matches):
        yield _verdict("format", _breaks(request.response_format, answer, matches))
    yield _verdict("secrets", _reveals(request, answer))
    yield _verdict("controls", _steers(answer))
    yield _verdict("images", _carries_off(answer))
    yield _verdict("repetition", _repeats(answer))
    yield from (rule.verdict(answer) for rule in rules if rule.concerns(question))


def _verdict(validator: str, problem: str) -> Verdict:
    return Verdict(validator, not problem, problem)


def _breaks(wanted: ResponseFormat, answer: str, matches: Matches | None) -> str:
    if wanted.kind != "json_schema":
        try:
            follows = matches is None or matches(wanted, answer)
        except InvalidRequest as error:
            return error.message
        return "" if follows else f"The answer does not follow the {wanted.kind} it was asked to."
    try:
        schema, value = json.loads(wanted.source), json.loads(answer, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return "The answer is not JSON."
    problem = first_problem(schema, value, matches)
    return f"The answer does not follow its schema: {problem}." if problem else ""


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")  # Python would read NaN and Infinity


_MOST_TOLD = 3  # kinds of secrets that a verdict names


def _reveals(request: ChatRequest, answer: str) -> str:
    """A key or a private key that the conversation did not hold: it is somebody's, or made up to be tried."""
    hits = [hit for hit in scan_text(answer) if hit.kind in ("key", "private key")]
    asked = [text for _, text in texts(request)] if hits else []
    new = [hit.what for hit in hits if not any(answer[hit.start : hit.end] in text for text in asked)]
    return f"The answer shows a secret: {', '.join(dict.fromkeys(new[:_MOST_TOLD]))}." if new else ""


# C0 and C1 but tab and line ends; what turns the writing direction (trojansource.codes, CVE-2021-42574);
# tag characters, which carry text that nobody sees: https://www.unicode.org/charts/PDF/UE0000.pdf
_STEERING = {
    "control characters that steer a terminal": re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"),
    "characters that turn the direction of writing": re.compile("[\u202a-\u202e\u2066-\u2069]"),
    # A flag of emoji (England's) is a black flag and tags: those are seen.
    "hidden characters that carry text": re.compile("(?<!\U0001f3f4)[\U000e0020-\U000e007e]{8,}"),
}


def _steers(answer: str) -> str:
    found = [what for what, pattern in _STEERING.items() if pattern.search(answer)]
    return f"The answer holds {' and '.join(found)}." if found else ""


# An image is fetched by whoever shows it: its address takes away what was put into it.
# https://embracethered.com/blog/posts/2023/chatgpt-webpilot-data-exfil-via-markdown-injection/
_IMAGE = re.compile(
    r"!\[[^\]\n]{0,1000}\]\(\s{0,9}<?(https?://[^\s)>]{1,4000})|<img\b[^>]{0,1000}?\bsrc\s?=\s?[\"']?(https?://[^\s\"'>]{1,4000})",
    re.IGNORECASE,
)
_DATA = re.compile(
    r"[?#;][^\s]*=[^&\s]{1,}|/[A-Za-z0-9+_=-]{60,}"
)  # a parameter, or a part too long for a name


def _carries_off(answer: str) -> str:
    for image in _IMAGE.finditer(answer):
        address = image[1] or image[2]
        if _DATA.search(address):
            host = address.split("/")[2][:100]
            return f"The answer has an image whose address carries data to {host}."
    return ""


_LOOP_WORDS = 60  # that a loop must fill before it is one, so that a refrain or a row of dashes is none
_LONGEST_ROUND = 60  # words
_FEWEST_ROUNDS = 5


def _repeats(answer: str) -> str:
    """The end of the answer goes round in circles, as small models do."""
    words = answer[-20_000:].split()[-_LONGEST_ROUND * _FEWEST_ROUNDS :]
    for size in range(1, _LONGEST_ROUND + 1):
        again = islice((n for n in range(len(words) - size - 1, -1, -1) if words[n] != words[n + size]), 1)
        same = len(words) - next(again, -1) - 1
        if same >= max(_LOOP_WORDS, size * _FEWEST_ROUNDS):
            return "The end of the answer repeats itself."
    return ""
