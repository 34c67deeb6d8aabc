"""Phone numbers of any country, told by their form or by a word beside them.

By form alone: +country code, 00country code, North American 3-3-4, a leading 0 and groups,
an area code in brackets. Any other grouping only beside a word such as "call" or "fax".
Works on folded text; no table of numbering plans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from router.privacy.digit_runs import Run
from router.privacy.kinds import Hit

MOST_GROUPS = 10  # a longer row of numbers is a table
DIGITS = range(7, 16)  # a subscriber's number without its area, to the most of ITU-T E.164
_EXTENSION = re.compile(r"\s?(?:x|ext\.?)\s?[0-9]{1,6}(?![A-Za-z0-9])", re.I)
_LABEL = (  # stands beside phone numbers and little else
    r"(?:tele|cell|mobile\s?)?phone|tel|mobile|cell|fax|whatsapp|sms|desk|hotline|"
    r"telefono?|handy|rufnummer|t[eé]l[eé]phone|portable|m[oó]vil|celular"
)
_BEFORE = re.compile(rf"\b(?:{_LABEL})\b", re.I)
_AFTER = re.compile(rf"[\s\-(,]{{0,3}}(?:{_LABEL}|office|home|work)\b", re.I)
_DASH_AFTER = re.compile(r"\s?[-(]")
# These stand beside other numbers too: then it must be in groups, or the word lead up to it ("call me on").
_VERB = re.compile(
    r"\b(?:call(?:ed|ing)?|dial(?:l?ed|l?ing)?|ring|signal|texts?|messages?|reach(?:ed)?|answering|"
    r"contact(?:ed)?|registered|office)\b",
    re.I,
)
_LEADS_UP = re.compile(r"\b(?:at|on|to|me|us|him|her|them|is|number)\W{0,3}\Z", re.I)
_NO_PHONE_AFTER = frozenset("/=$€£#_")
_WORD_BEFORE = 40  # characters in which it is looked for
_DATE = re.compile(
    r"(?:19|20)\d\d[-./ ](?:0?[1-9]|1[0-2])[-./ ](?:0?[1-9]|[12]\d|3[01])(?:\D|$)"
    r"|(?:0?[1-9]|[12]\d|3[01])[-./ ](?:0?[1-9]|[12]\d|3[01])[-./ ](?:19|20)\d\d(?:\D|$)"
)


def phones(run: Run) -> Iterator[Hit]:
    """The longest stretches of ``run`` that are phone numbers."""
    if len(run.groups) > MOST_GROUPS or len(run.digits) < DIGITS[0]:
        return
    first = 0
    while first < len(run.groups):
        last = _phone_from(run, first)
        if last:
            yield _hit(run.part(first, last))
        first = last or first + 1


def _phone_from(run: Run, first: int) -> int:
    """The group behind the longest number that begins with group ``first``, 0 without one."""
    for last in range(len(run.groups), first, -1):
        part = run.part(first, last)
        whole = first == 0 and last == len(run.groups)
        if len(part.digits) in DIGITS and _stands_alone(part) and _is_phone(part, whole):
            return last
    return 0


def _stands_alone(part: Run) -> bool:
    of_a_time = part.before == ":" and part.text[part.start - 2 : part.start - 1].isdecimal()
    if of_a_time or part.before in _NO_PHONE_AFTER:
        return False
    if part.stands_alone:
        return True
    return not part.before.isalnum() and _EXTENSION.match(part.text, part.end) is not None


def _is_phone(part: Run, whole: bool) -> bool:
    if _DATE.match(part.text, part.start) or _is_address(part):
        return False
    if _has_its_form(part):
        return True
    return whole and min(part.lengths) >= 2 and _is_named(part)


def _is_address(part: Run) -> bool:
    """Of the internet: four numbers below 256."""
    return part.gaps == (".", ".", ".") and max(part.lengths) <= 3


def _has_its_form(part: Run) -> bool:
    digits, lengths, split = part.digits, part.lengths, len(part.groups) > 1
    if part.before == "+":
        return digits[0] != "0" and len(digits) >= (8 if split else 9)
    if digits.startswith("00"):
        return split and digits[2] != "0" and len(digits) >= 10
    if lengths in ((3, 3, 4), (1, 3, 3, 4)):
        return digits[-10] >= "2" and digits[-7] >= "2" and (len(lengths) == 3 or digits[0] == "1")
    if split and digits[0] == "0":
        pairs = set(lengths) == {2} and len(digits) == 10
        if pairs or (3 <= lengths[0] <= 5 and min(lengths) >= 2 and 9 <= len(digits) <= 11):
            return True
    bracketed = part.before == "(" and part.gaps and part.gaps[0] in (")", ") ", ")-")
    return bool(bracketed) and 2 <= lengths[0] <= 5 and min(lengths[1:]) >= 3 and 8 <= len(digits) <= 11


def _is_named(part: Run) -> bool:
    text, start = part.text, part.start
    split = len(part.groups) > 1 and not _is_an_amount(part)
    near = max(0, start - _WORD_BEFORE)
    if _BEFORE.search(text, near, start):
        return True
    if _VERB.search(text, near, start) and (split or _LEADS_UP.search(text, near, start)):
        return True
    return _AFTER.match(text, part.end) is not None and (
        split or _DASH_AFTER.match(text, part.end) is not None
    )


def _is_an_amount(part: Run) -> bool:
    """Thousands, as in 10 000 000."""
    return set(part.lengths[1:]) == {3} and set(part.gaps) <= {" ", "."} and part.digits.endswith("000")


def _hit(part: Run) -> Hit:
    area = part.before == "(" and part.gaps and part.gaps[0].startswith(")")
    begins = part.start - (part.before == "+" or bool(area))
    extension = _EXTENSION.match(part.text, part.end)
    return Hit(begins, extension.end() if extension else part.end, "phone", "phone number")
