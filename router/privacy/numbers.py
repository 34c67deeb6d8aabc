"""Payment cards, US tax numbers and bank accounts: numbers that check themselves.

Works on folded text. A card has its network's prefix and length and a right checksum (Luhn), a
bank account its country's length and checksum (ISO 13616), a tax number parts that are given out.
Where the word for it stands before, one of these may be wrong: somebody mistyped it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from router.privacy.digit_runs import Run
from router.privacy.formats import LONGEST_PREFIX, card_networks, iban_lengths
from router.privacy.kinds import Hit

CARD_DIGITS = range(12, 20)  # the lengths in formats.toml
_CARD_GROUPS = {(4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 4, 4, 3), (4, 4, 5), (8, 8)}  # as they are printed
_SPLITS = (5, 4, 3, 2, 1)  # groups
_DOUBLED = bytes.maketrans(b"0123456789", b"0246813579")  # twice the digit, and the sum of its digits
_NAMED_BEFORE = 40  # characters in which the word for a number is looked for

_CARD_WORD = re.compile(r"\b(?:(?:credit|debit|payment|bank)\s?)?card\b|\b(?:visa|mastercard|amex)\b", re.I)
_TAX_WORD = re.compile(r"\b(?:ssn|itin|social security|tax id)", re.I)
_IBAN_WORD = re.compile(r"\biban\b", re.I)


def cards(run: Run) -> Iterator[Hit]:
    """The whole run, however it is split, or those of its groups that are split as cards are."""
    if len(run.groups) <= CARD_DIGITS[-1] and _is_card(run):
        yield _card(run)
        return
    first = 0
    while first < len(run.groups):
        split = next((n for n in _SPLITS if _is_split(run, first, n)), 0)
        if split:
            yield _card(run.part(first, first + split))
        first += split or 1


def _is_split(run: Run, first: int, groups: int) -> bool:
    lengths = run.lengths[first : first + groups]
    fits = lengths in _CARD_GROUPS or (groups == 1 and lengths[0] in CARD_DIGITS)
    return fits and _is_card(run.part(first, first + groups))


def _card(part: Run) -> Hit:
    return Hit(part.start, part.end, "card", f"{_network(part.digits) or 'payment'} card")


def _is_card(part: Run) -> bool:
    """Two of three: an issuer's prefix and length, the checksum, the word before it."""
    digits = part.digits
    known = _network(digits) != ""
    usual = part.lengths in _CARD_GROUPS or part.lengths in ((15,), (16,))
    if not (known or usual) or not part.stands_alone or not set(part.gaps) <= {" ", "  ", "-", "."}:
        return False
    checks = luhn(digits)
    if known and checks:
        return True
    return (known or checks) and usual and named(part.text, part.start, _CARD_WORD)


def _network(digits: str) -> str:
    return next(
        (network for network, lengths in _networks(digits[:LONGEST_PREFIX]) if len(digits) in lengths), ""
    )


@lru_cache(maxsize=4096)
def _networks(prefix: str) -> tuple[tuple[str, range], ...]:
    """Those whose numbers begin like this, the longest beginning first."""
    known = card_networks()
    beginnings = (prefix[:size] for size in range(LONGEST_PREFIX, 0, -1))
    return tuple(known[each] for each in beginnings if each in known)


def luhn(digits: str) -> bool:
    """ISO/IEC 7812-1, annex B."""
    values = digits.encode()
    total = sum(values[-1::-2]) + sum(values[-2::-2].translate(_DOUBLED))
    return (total - ord("0") * len(values)) % 10 == 0


def tax_numbers(run: Run) -> Iterator[Hit]:
    """Social Security numbers and ITINs: three, two and four digits, or nine where they are named."""
    for first in range(len(run.groups) - 2):
        if run.lengths[first : first + 3] != (3, 2, 4):
            continue
        part = run.part(first, first + 3)
        if part.gaps in ((" ", " "), ("-", "-"), (".", ".")):
            alone = part.stands_alone and part.before not in ("-", ".", "/")
            if alone and (_is_given_out(part.digits) or named(run.text, part.start, _TAX_WORD)):
                yield Hit(part.start, part.end, "ssn", "Social Security number")
    if run.lengths == (9,) and run.stands_alone and named(run.text, run.start, _TAX_WORD):
        yield Hit(run.start, run.end, "ssn", "Social Security number")


def _is_given_out(digits: str) -> bool:
    """https://www.ssa.gov/employer/randomization.html; from 900 on: https://www.irs.gov/irm/part3/irm_03-021-263r"""
    area, group, serial = int(digits[:3]), int(digits[3:5]), int(digits[5:])
    if area >= 900:
        return 50 <= group <= 65 or 70 <= group <= 88 or 90 <= group <= 92 or 94 <= group <= 99
    return area not in (0, 666) and group > 0 and serial > 0


_IBAN_BEGINS = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[0-9]{2}")


def ibans(text: str) -> Iterator[Hit]:
    done = 0
    for begin in _IBAN_BEGINS.finditer(text):
        length = iban_lengths().get(begin[1].upper(), 0)
        if begin.start() < done or not length:
            continue
        done = _iban_end(text, begin.start(), length)
        if done:
            yield Hit(begin.start(), done, "iban", "IBAN")


def _iban_end(text: str, start: int, length: int) -> int:
    """Behind the ``length`` letters and digits from ``start`` on, spaces and dashes not counted; or 0."""
    found = _iban_of(length).match(text, start)
    if not found:
        return 0
    number = found[0].replace(" ", "").replace("-", "")
    return found.end() if iban_checks(number) or named(text, start, _IBAN_WORD) else 0


@cache
def _iban_of(length: int) -> re.Pattern[str]:
    return re.compile(rf"[A-Za-z0-9](?:[ -]?[A-Za-z0-9]){{{length - 1}}}(?![A-Za-z0-9])")


def iban_checks(number: str) -> bool:
    """ISO 13616: read as base 36 from the fifth character on, the remainder by 97 is 1."""
    return int("".join(str(int(c, 36)) for c in number[4:] + number[:4])) % 97 == 1


def named(text: str, start: int, word: re.Pattern[str]) -> bool:
    """``word`` stands just before ``start``."""
    return word.search(text, max(0, start - _NAMED_BEFORE), start) is not None
