"""Compares two questions: each guard names what it found to differ, or nothing.

Pure. Owns the order of the guards and what each lets pass. A difference that no rule explains
is a difference: what is left of two questions once all that is known to mean the same has
been taken away must be nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import combinations

from router.cache.guard.lexicon import lexicon
from router.cache.guard.reading import Reading, Word, read

VERSION = "words 2"

REWORDED_WORDS = 7  # of so many that carry a text, some may be unknown here ...
ORDERED_WORDS = 5  # of so many, the order may change with the wording
CHANGED_PLACES, CHANGED_WORDS = 3, 5  # from where on a text was put in other words
LITTLE = 0.3  # ... if they are no more than this share of them

Check = Callable[[Reading, Reading], str]


def literals(one: Reading, other: Reading) -> str:
    return _difference(set(one.literals), set(other.literals))


def numbers(one: Reading, other: Reading) -> str:
    return _difference(set(one.numbers), set(other.numbers))


def units(one: Reading, other: Reading) -> str:
    return _difference(set(one.units), set(other.units))


def negation(one: Reading, other: Reading) -> str:
    return "one of them denies" if one.negations % 2 != other.negations % 2 else ""


def tense(one: Reading, other: Reading) -> str:
    if one.asks and one.tenses and other.tenses and one.tenses.isdisjoint(other.tenses):
        return f"{_listed(one.tenses)} or {_listed(other.tenses)}"
    if _are_reworded(one, other):
        return ""
    if one.modals and other.modals and one.modals.isdisjoint(other.modals):
        return f"{_listed(one.modals)} or {_listed(other.modals)}"
    return ""


_DIRECTIONS = frozenset(lexicon().english["directions"].split())
# "Zoom in" and "zoom out": too common in other roles to be words that carry a question.
_PARTICLES = (("in", "out"), ("on", "off"), ("up", "down"), ("into", "out"), ("for", "against"))
_ASK_ALIKE = (
    {"what", "explain"},
    {"explain", ""},
    {"what", "meaning"},
    {"explain", "meaning"},
    {"explain", "works"},
    {"reason", "what"},
)


def question_word(one: Reading, other: Reading) -> str:
    asks = {one.asks, other.asks}
    if len(asks) == 1 or asks in _ASK_ALIKE:
        return ""
    if "differ" in _roots(one) and "differ" in _roots(other):
        return ""
    return " or ".join(sorted(asks)).strip() or "another kind of answer"


def antonyms(one: Reading, other: Reading) -> str:
    here, there = set(one.tokens) - set(other.tokens), set(other.tokens) - set(one.tokens)
    for a, b in _PARTICLES:
        if (a in here and b in there) or (b in here and a in there):
            return f"{a} or {b}"
    mine, others = _left_over(one, other)
    for word in mine:
        for each in others:
            if lexicon().are_opposite(word.text, each.text):
                return f"{word.text} or {each.text}"
    return ""


def names(one: Reading, other: Reading) -> str:
    mine, others = _left_over(one, other)
    named = [word.text for word in (*mine, *others) if word.is_name]
    return _quoted(named)


def words(one: Reading, other: Reading) -> str:
    mine, others = _left_over(one, other)
    if not mine or not others:  # "which city is" and "what is": the kind of answer may be named or not
        mine, others = ([word for word in side if not word.is_asked] for side in (mine, others))
    if _are_reworded(one, other) and _is_little(mine, one) and _is_little(others, other):
        return ""
    return _quoted([word.text for word in (*mine, *others)])


def roles(one: Reading, other: Reading) -> str:
    """Who does what to whom, from where to where: the order of what both name."""
    return _directions(one, other) or (
        "" if _are_reworded(one, other, words=ORDERED_WORDS) else _order(one, other)
    )


CHECKS: dict[str, Check] = {
    "code and quoted text": literals,
    "numbers": numbers,
    "units": units,
    "negation": negation,
    "tense": tense,
    "question word": question_word,
    "opposites": antonyms,
    "names": names,
    "words": words,
    "roles": roles,
}


class WordGuard:
    """Refuses unless every word of one question is accounted for in the other. Pure; any thread."""

    version = VERSION
    names = tuple(CHECKS)

    def refuses(self, asked: str, stored: str) -> str:
        one, other = read(asked), read(stored)
        if not one.words and not one.literals:
            return "there is nothing to compare"
        for name, check in CHECKS.items():
            found = check(one, other)
            if found:
                return f"{name} ({found})"
        return ""

    def is_word(self, word: str) -> bool:
        return lexicon().is_word(word)


def _difference(one: set[str], other: set[str]) -> str:
    return _quoted(sorted(one ^ other))


def _left_over(one: Reading, other: Reading) -> tuple[list[Word], list[Word]]:
    """The words of each that have no counterpart in the other."""
    return (
        [word for word in one.words if not word.is_bare and not _is_in(word, other)],
        [word for word in other.words if not word.is_bare and not _is_in(word, one)],
    )


def _is_in(word: Word, other: Reading) -> bool:
    return any(
        word.text == each.text
        or word.lemma == each.lemma
        or (not word.is_name and not each.is_name and lexicon().are_same(word.text, each.text))
        for each in other.words
    )


def _are_reworded(one: Reading, other: Reading, words: int = REWORDED_WORDS) -> bool:
    """Whether these are long texts of which one was put in other words throughout.

    A text in which a word or two were replaced or changed places is never taken for that.
    """
    if min(len(one.words), len(other.words)) < words:
        return False
    matcher = SequenceMatcher(None, one.tokens, other.tokens, autojunk=False)
    changes = [(a, b, c, d) for kind, a, b, c, d in matcher.get_opcodes() if kind != "equal"]
    changed = sum(max(b - a, d - c) for a, b, c, d in changes)
    is_rearranged = Counter(one.tokens) == Counter(other.tokens)
    return len(changes) >= CHANGED_PLACES and changed >= CHANGED_WORDS and not is_rearranged


def _is_little(left_over: list[Word], reading: Reading) -> bool:
    return len(left_over) <= LITTLE * len(reading.words)


def _roots(reading: Reading) -> set[str]:
    return {"differ" if word.lemma.startswith("differ") else word.lemma for word in reading.words}


def _directions(one: Reading, other: Reading) -> str:
    mine, others = _behind(one), _behind(other)
    shared = {word.lemma for word in one.words} & {word.lemma for word in other.words}
    for direction in mine.keys() & others.keys():
        a, b = mine[direction] & shared, others[direction] & shared
        if a and b and a.isdisjoint(b):
            return f"{direction} another one"
    return ""


def _behind(reading: Reading) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for word in reading.words:
        if word.behind in _DIRECTIONS:
            found.setdefault(word.behind, set()).add(word.lemma)
    return found


def _order(one: Reading, other: Reading) -> str:
    """Two things that change places. Verbs may, and what a passive turns around."""
    if one.is_passive != other.is_passive:
        return ""
    mine, others = _places(one), _places(other)
    shared = [lemma for lemma in mine if lemma in others]
    for a, b in combinations(shared, 2):
        turned = (mine[a].at < mine[b].at) != (others[a].at < others[b].at)
        if turned and not _may_turn(one, other, mine[a], mine[b], others[a], others[b]):
            return f'"{mine[a].text}" and "{mine[b].text}" change places'
    return ""


def _may_turn(one: Reading, other: Reading, a: Word, b: Word, c: Word, d: Word) -> bool:
    """``a`` and ``b`` of one, which are ``c`` and ``d`` of the other: joined by "and", one of them a verb,
    attribute of the other ("a Python list", "a list in Python"), or moved with its preposition.
    """
    if lexicon().is_only_verb(a.lemma) or lexicon().is_only_verb(b.lemma):
        return True
    if frozenset((a.lemma, b.lemma)) in one.joins & other.joins:
        return True
    if (abs(a.at - b.at) == 1) != (abs(c.at - d.at) == 1):
        return True
    return any(x.behind == y.behind != "" for x, y in ((a, c), (b, d)))


def _places(reading: Reading) -> dict[str, Word]:
    places: dict[str, Word] = {}
    for word in reading.words:
        places.setdefault(word.lemma, word)
    return places


def _listed(words: frozenset[str]) -> str:
    return " and ".join(sorted(words))


def _quoted(found: list[str]) -> str:
    return ", ".join(f'"{each}"' for each in found[:3])
