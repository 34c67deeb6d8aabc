"""Text as a detector reads it: one spelling for what looks or counts the same.

Wide and styled characters, all decimal digits, dashes and spaces become their ASCII ones;
characters without width and combining marks go; JSON's ``\\uXXXX`` and the ``%40`` of links
are what they stand for. Owns the way back from a place there to the text itself. Letters of
other scripts that only look alike (Cyrillic а) stay what they are.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from dataclasses import dataclass, field
from functools import lru_cache

_ESCAPES = r"\\+u[0-9a-fA-F]{4}|%40"  # one backslash more for each level of JSON within JSON
_DOTS = "\u00b7\u2022\u2027\u30fb"  # set between groups of digits
# Invisible though their categories do not say so: Default_Ignorable_Code_Point in
# https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt
_INVISIBLE = "\u115f\u1160\u3164\uffa0"


@dataclass(frozen=True, slots=True)
class Folded:
    """``pieces`` are (place in the folded text, its end, place in the original, its end), in order.

    Both sides of a piece are equally long where character follows character.
    """

    text: str
    pieces: tuple[tuple[int, int, int, int], ...] = ()
    _starts: tuple[int, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_starts", tuple(piece[0] for piece in self.pieces))

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Where in the original the characters from ``start`` to ``end`` come from."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, at: int) -> tuple[int, int]:
        if not self.pieces:
            return at, at + 1
        start, end, original, original_end = self.pieces[bisect_right(self._starts, at) - 1]
        if end - start == original_end - original:
            return original + at - start, original + at - start + 1
        return original, original_end


def fold(text: str) -> Folded:
    if text.isascii() and "\\u" not in text and "%40" not in text:
        return Folded(text)
    seen = {character: _folded(character) for character in set(text) if not character.isascii()}
    table = {ord(character): spelling for character, spelling in seen.items() if len(spelling) == 1}
    resized = "".join(re.escape(c) for c in seen if ord(c) not in table)
    changing = re.compile(f"{_ESCAPES}|[{resized}]" if resized else _ESCAPES)
    return _joined(text, changing, table)


def _joined(text: str, changing: re.Pattern[str], table: dict[int, str]) -> Folded:
    parts: list[str] = []
    pieces: list[tuple[int, int, int, int]] = []
    length = done = 0

    def add(part: str, original: int, original_end: int) -> None:
        nonlocal length
        if part:
            parts.append(part)
            pieces.append((length, length + len(part), original, original_end))
            length += len(part)

    for match in changing.finditer(text):
        add(text[done : match.start()].translate(table), done, match.start())
        add(_spelled_out(match[0]), match.start(), match.end())
        done = match.end()
    add(text[done:].translate(table), done, len(text))
    return Folded("".join(parts), tuple(pieces))


def _spelled_out(written: str) -> str:
    if len(written) == 1:
        return _folded(written)
    return "@" if written == "%40" else _folded(chr(int(written[-4:], 16)))


@lru_cache(maxsize=4096)
def _folded(character: str) -> str:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category in ("Cf", "Mn", "Me") or character in _INVISIBLE:
        return ""
    if category == "Nd":
        return str(unicodedata.digit(character))
    if category == "Pd" or character == "\u2212":  # the minus sign is no dash to Unicode
        return "-"
    if category == "Zs":
        return " "
    return "." if character in _DOTS else unicodedata.normalize("NFKC", character)
