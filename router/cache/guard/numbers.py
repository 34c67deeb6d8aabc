"""Numbers and units in a text, in one way of writing: "two thousand metres" is 2000 and meter.

Pure. Owns number words, ordinals, Roman numerals behind a name, and the short forms of units.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

from router.cache.guard.lexicon import lexicon

_FIGURE = re.compile(r"(?<![\w.])[-+−]?\d[\d,]*(?:\.\d+)?(?:st|nd|rd|th)?(?![\d])")
_ROMAN = re.compile(r"(?<=[A-Z][a-z])[a-z]* ([IVX]{1,5})\b(?!')")
_ROMAN_VALUES = {"I": 1, "V": 5, "X": 10}
_UNIT_BEHIND = re.compile(r"\s*(?:square |cubic )?°?([A-Za-z]+)\b")
_SIGN = re.compile(r"[$€£¥%₹°]")
_WORD = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True)
class Numbers:
    """``units`` are those behind a number; ``words`` are all that was read as a number or such a unit."""

    numbers: Counter[str]
    units: frozenset[str]
    words: frozenset[str]


def numbers_in(text: str) -> Numbers:
    """Of ``text`` with its upper case: Roman numerals need it."""
    numbers: Counter[str] = Counter()
    units = {signs()[sign] for sign in _SIGN.findall(text)}
    used: set[str] = set()
    for match in _FIGURE.finditer(text):
        numbers[_canonical(match.group())] += 1
        behind = _UNIT_BEHIND.match(text, match.end())
        if behind and (unit := _short(behind.group(1))):
            units.add(unit)
            used.add(behind.group(1).lower())
    for match in _ROMAN.finditer(text):
        numbers[str(_roman(match.group(1)))] += 1
        used.add(match.group(1).lower())
    spoken, spoken_words = _spoken(_WORD.findall(text.lower().replace("-", " ")))
    numbers.update(spoken)
    return Numbers(numbers, frozenset(units), frozenset({*spoken_words, *used}))


def _canonical(figure: str) -> str:
    ordinal = figure[-2:] if figure[-1].isalpha() else ""
    value = float(figure.removesuffix(ordinal).replace(",", "").replace("−", "-"))
    return f"{value:.12g}{'th' if ordinal else ''}"


def _roman(numeral: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in numeral]
    return sum(-v if v < max(values[n:]) else v for n, v in enumerate(values))


def _spoken(words: list[str]) -> tuple[Counter[str], set[str]]:
    """Numbers in words; "two hundred and five" is one of them."""
    found: Counter[str] = Counter()
    used: set[str] = set()
    total, current, open_number = 0.0, 0.0, False
    for word in [*words, ""]:
        value, power = _number_words().get(word), _powers().get(word)
        if value is not None and value[-1].isdigit() and "x" not in value:
            current += float(value)
            open_number = True
        elif power is not None and (open_number or power >= 100):
            scaled = (current or 1) * power
            total, current = (total, scaled) if power == 100 else (total + scaled, 0.0)
            open_number = True
        elif word == "and" and open_number and current % 100 == 0 and current + total > 0:
            continue
        else:
            if open_number:
                found[f"{total + current:.12g}"] += 1
            total, current, open_number = 0.0, 0.0, False
            if value is not None:
                found[value.replace("st", "th").replace("nd", "th").replace("rd", "th")] += 1
        if value is not None or power is not None:
            used.add(word)
    return found, used


def _short(word: str) -> str:
    """The unit that a word behind a number stands for, in long or short; "" where none."""
    return unit_names().get(word.lower()) or _short_units().get(word.lower(), "")


@cache
def _number_words() -> dict[str, str]:
    return _equations("numbers")


@cache
def _powers() -> dict[str, float]:
    return {word: float(value) for word, value in _equations("powers").items()}


@cache
def _short_units() -> dict[str, str]:
    return _equations("short_units")


@cache
def signs() -> dict[str, str]:
    return _equations("signs")


@cache
def unit_names() -> dict[str, str]:
    rows = [row.split() for row in lexicon().english["units"]]
    return {name: row[0] for row in rows for name in row}


def _equations(name: str) -> dict[str, str]:
    return dict(pair.split("=") for pair in lexicon().english[name].split())
