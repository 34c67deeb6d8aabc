"""Which of a few languages a text is in, by its commonest words: enough to keep them apart.

Pure. The words are in languages.toml. Text in a language that is not among them is "other".
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib.resources import files

OTHER = "other"

_WORD = re.compile(r"[^\W\d_]+")
_FOREIGN_SHARE = 0.2  # of letters outside ASCII: more is no English


def words_of(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("’", "'"))


def language_of(text: str, is_english_word: Callable[[str], bool] = lambda word: False) -> str:
    """The language with the most common words; a tie or none is English only if the words say so.

    ``is_english_word`` is asked where common words do not decide, as in "Define osmosis."
    """
    words = words_of(text)
    if not words or not _is_latin(text):
        return OTHER
    votes = {language: sum(word in common for word in words) for language, common in _common().items()}
    most = max(votes.values())
    leaders = [language for language, count in votes.items() if count == most]
    if most and len(leaders) == 1:
        return leaders[0] if leaders[0] != "en" or _is_plain(text) else OTHER
    known = sum(is_english_word(word) for word in words)
    if "en" in leaders and known >= 0.6 * len(words) and _is_plain(text):
        return "en"
    return leaders[0] if most and "en" not in leaders else OTHER


@cache
def _common() -> dict[str, frozenset[str]]:
    text = (files("router.cache") / "languages.toml").read_text(encoding="utf-8")
    return {language: frozenset(words.split()) for language, words in tomllib.loads(text).items()}


def _is_latin(text: str) -> bool:
    letters = [letter for letter in text if letter.isalpha()]
    latin = sum("LATIN" in unicodedata.name(letter, "") for letter in letters)
    return latin >= (1 - _FOREIGN_SHARE) * len(letters)


def _is_plain(text: str) -> bool:
    letters = [letter for letter in text if letter.isalpha()]
    return sum(not letter.isascii() for letter in letters) <= _FOREIGN_SHARE * len(letters)
