"""What words have to do with one another: same, opposite, of one root, or nothing known.

Owns WordNet's lists (wordnet/, made by scripts/wordnet.py) and what english.toml adds. Knows
nothing of questions.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

# Endings of regular forms and what they stand for, as WordNet's own lemmatiser (morphy) has them.
_ENDINGS = (
    *(("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("ies", "y"), ("es", "e")),
    *(("es", ""), ("s", ""), ("ied", "y"), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", "")),
)


def _read(name: str) -> list[list[str]]:
    text = (files("router.cache.guard") / "wordnet" / f"{name}.txt").read_text(encoding="utf-8")
    return [line.split() for line in text.splitlines()]


class Lexicon:
    """Loads nothing until it is first asked; about 0.1 s then."""

    @cached_property
    def english(self) -> dict[str, Any]:
        return tomllib.loads((files("router.cache.guard") / "english.toml").read_text(encoding="utf-8"))

    @cached_property
    def _kinds(self) -> dict[str, str]:
        return {row[0]: row[1] if len(row) > 1 else "" for row in _read("words")}

    @cached_property
    def _irregular(self) -> dict[str, str]:
        return {row[0]: row[1] for row in _read("irregular")}

    @cached_property
    def _synonyms(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = defaultdict(set)
        own = [group.split("/") for group in self.english["synonyms"].split()]
        for number, group in enumerate([*_read("synonyms"), *own]):
            for word in group:
                found[word].add(number)
        return found

    @cached_property
    def _related(self) -> dict[str, set[str]]:
        return _both_ways(_read("related"))

    @cached_property
    def _antonyms(self) -> dict[str, set[str]]:
        own = [pair.split("/") for pair in self.english["antonyms"].split()]
        return _both_ways([*_read("antonyms"), *own])

    def is_word(self, word: str) -> bool:
        return word in self._kinds or self.lemma(word) in self._kinds

    def is_only_verb(self, lemma: str) -> bool:
        """Never, or seldom, the name of a thing that could change places with another."""
        return self._kinds.get(lemma, "") == "v"

    def lemma(self, word: str) -> str:
        """The form that a dictionary lists; ``word`` itself where none is known."""
        return self.forms(word)[0]

    @cache  # noqa: B019  # there is one lexicon a process, and English has only so many words
    def forms(self, word: str) -> tuple[str, ...]:
        """What ``word`` may be a form of, itself among it; the likeliest first."""
        if word in self._irregular:
            return (self._irregular[word], word)
        found = [stem for stem in _stems(word) if stem in self._kinds]
        if not found and word not in self._kinds and word.endswith("s") and len(word) > 3:
            found = [word.removesuffix("s")] if not word.endswith("ss") else []  # a name or a new word
        return (*found, word)

    def are_same(self, one: str, other: str) -> bool:
        """Whether two words may stand for one another: equal, synonyms, of one root, or both in turn."""
        ones, others = self._family(one), self._family(other)
        if one == other or not set(self.forms(one)).isdisjoint(self.forms(other)):
            return True
        if self.are_opposite(one, other):
            return False
        if not ones.isdisjoint(others):
            return True
        groups = {group for word in others for group in self._synonyms.get(word, ())}
        return any(not groups.isdisjoint(self._synonyms.get(word, ())) for word in ones)

    def are_opposite(self, one: str, other: str) -> bool:
        ones, others = self.forms(one), self.forms(other)
        if any(_is_negated(a, b) or _is_negated(b, a) for a in ones for b in others):
            return True
        return any(b in self._antonyms.get(a, ()) for a in self._family(one) for b in self._family(other))

    def _family(self, word: str) -> set[str]:
        forms = self.forms(word)
        return {*forms, *(related for form in forms for related in self._related.get(form, ()))}


@cache
def _prefixes() -> frozenset[str]:
    return frozenset(lexicon().english["opposing_prefixes"].split())


def _is_negated(one: str, other: str) -> bool:
    """Whether a prefix or an ending turns ``one`` into ``other``, into its opposite or its relative."""
    if len(other) > len(one) >= 3 and other.endswith(one) and other[: -len(one)].rstrip("-") in _prefixes():
        return True
    return other == f"{one}less" or (one.endswith("ful") and other == f"{one[:-3]}less")


def _stems(word: str) -> list[str]:
    found = []
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 2 and not word.endswith("ss"):
            stem = word[: -len(ending)]
            found.append(stem + instead)
            if not instead and len(stem) > 3 and stem[-1] == stem[-2]:
                found.append(stem[:-1])  # "running"
    return found


def _both_ways(pairs: list[list[str]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for one, other in pairs:
        found[one].add(other)
        found[other].add(one)
    return found


@cache
def lexicon() -> Lexicon:
    """The one of this process."""
    return Lexicon()
