"""What a question consists of, as far as the guards tell questions apart.

Pure. Owns how a text is taken apart: literals, quantities, names, negations, the way it asks,
and the words that carry it with the word of direction before each. Does not compare.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from dataclasses import dataclass
from functools import cache, lru_cache

from router.cache.guard.lexicon import lexicon
from router.cache.guard.numbers import numbers_in, unit_names

_QUOTED = re.compile(r"```.*?```|`[^`\n]+`|\"[^\"\n]+\"|(?<!\w)'[^'\n]+'(?!\w)", re.DOTALL)
# What no prose has: underscores, calls, paths, inner capitals, letters with digits, symbols in a word.
_CODE = re.compile(
    r"(?<!\w)(?:"
    r"\w*[_\\@#^&*=<>{}\[\]|~]\S*|\w+(?:[./:]\w+)+|\w+\(\S*\)|[A-Za-z]+[+#]+|[.]\w+|--?\w[\w-]*|"
    r"[a-z]+[A-Z]\w*|[A-Z][a-z]+[A-Z]\w*|[A-Za-z]+\d\w*|\d+[A-Za-z]+\d\w*)"
)
_ABBREVIATIONS = ("e.g", "i.e", "etc", "a.k.a", "u.s", "p.m", "a.m")
_STRAIGHT = str.maketrans("’‘“”", "''\"\"")
_WORD = re.compile(r"@?[a-z]+(?:'[a-z]+)?")
_NAME = re.compile(r"(?<![.?!:]\s)(?<!^)\b[A-Z][\w'-]*")
_MARK = "@"  # before the names of ways to ask, which english.toml writes into a text
_LITERAL = "qz"  # begins no English word
_LETTERS = str.maketrans("0123456789", "ghijklmnop")
_ORDINARY = frozenset(("I", "I'm", "I've", "I'd", "I'll"))
_PAST, _PRESENT, _FUTURE = "past", "present", "future"
_TENSES = {
    "was": _PAST, "were": _PAST, "did": _PAST, "had": _PAST, "is": _PRESENT, "are": _PRESENT, "do": _PRESENT,
    "does": _PRESENT, "will": _FUTURE, "shall": _FUTURE,
}  # fmt: skip
_MODALS = {
    "can": "can", "could": "can", "may": "can", "might": "can", "should": "must", "ought": "must",
    "must": "must", "shall": "must", "need": "must", "needs": "must", "will": "will", "would": "will",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Word:
    """One that carries the question. ``behind`` is the preposition before it, "" where none.

    ``at`` counts all words before it. ``is_asked``: it stands just behind "which" or "what".
    ``is_bare``: a literal, a number or a unit, which other guards compare; here only its place counts.
    """

    text: str
    lemma: str
    behind: str
    at: int
    is_name: bool = False
    is_asked: bool = False
    is_bare: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """``asks`` is one word for the kind of answer wanted, "" where it is a statement or a command."""

    asks: str
    words: tuple[Word, ...]
    literals: Counter[str]
    numbers: Counter[str]
    units: frozenset[str]
    negations: int
    tenses: frozenset[str]
    modals: frozenset[str]
    joins: frozenset[frozenset[str]]
    is_passive: bool
    tokens: tuple[str, ...]


@lru_cache(maxsize=4096)
def read(text: str) -> Reading:
    composed = unicodedata.normalize("NFKC", text).translate(_STRAIGHT)
    literals, prose = _literals(composed)
    numbers = numbers_in(prose)
    names = {name.lower().removesuffix("'s") for name in _NAME.findall(prose) if name not in _ORDINARY}
    lowered = _written_out(prose.lower())
    plain = _WORD.findall(lowered)
    tokens = _WORD.findall(_framed(lowered))
    named_units = [unit for unit in _named_units(tokens) if unit not in numbers.words]
    return Reading(
        asks=_asks(tokens, _is_question(lowered)) if tokens else "",
        words=_words(tokens, names, numbers.words.union(named_units)),
        literals=literals,
        numbers=numbers.numbers,
        units=numbers.units.union(unit_names()[token] for token in named_units),
        negations=sum(word in _set("negations") for word in plain),
        tenses=frozenset(_TENSES[word] for word in plain if word in _TENSES),
        modals=frozenset(_MODALS[word] for word in tokens if word in _MODALS),
        joins=_joins(tokens),
        is_passive="by" in plain,
        tokens=tuple(plain),
    )


def _literals(text: str) -> tuple[Counter[str], str]:
    """What must be the same to the letter, and the text without it. One quoted word stays in the text too."""
    found: Counter[str] = Counter()

    def quoted(match: re.Match[str]) -> str:
        inner = " ".join(match.group().strip("`\"'").split())
        if _CODE.fullmatch(inner):
            return f" {inner} "
        found[inner if match.group()[0] == "`" else inner.lower()] += 1
        return f" {inner} " if inner.isalpha() else f" {_place_of(inner)} "

    def code(match: re.Match[str]) -> str:
        literal = match.group().rstrip(".,:;?!()")
        if literal.lower() in _ABBREVIATIONS:
            return " "
        if match.start() == 0 and literal[1:].islower():  # the capital may be the sentence's
            literal = literal.lower()
        found[literal] += 1
        return f" {_place_of(literal)} "

    prose = _QUOTED.sub(quoted, text)
    return found, _CODE.sub(code, prose)


def _place_of(literal: str) -> str:
    """A word that stands for it among words, the same in every text."""
    digest = hashlib.sha256(literal.encode("utf-8", "replace")).hexdigest()[:12]
    return _LITERAL + digest.translate(_LETTERS)


def _written_out(text: str) -> str:
    for short, long in _contractions():
        text = text.replace(short, long)
    return " ".join(re.sub(r"[-–—/]", " ", text).split())


def _framed(text: str) -> str:
    for pattern, marker in _frames():
        text = pattern.sub(marker, text)
    return text


@cache
def _frames() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), marker) for pattern, marker in lexicon().english["frames"])


@cache
def _contractions() -> tuple[tuple[str, str], ...]:
    pairs = (pair.split("=") for pair in lexicon().english["contractions"].split("|"))
    return tuple((short, long) for short, long in pairs)


@cache
def _set(name: str) -> frozenset[str]:
    return frozenset(lexicon().english[name].split())


def _named_units(tokens: list[str]) -> list[str]:
    """Short forms count behind a word that wants a unit only: "ML" and "in" mean other things."""
    return [
        token
        for n, token in enumerate(tokens)
        if token in unit_names() and (len(token) > 2 or (n and tokens[n - 1] in ("in", "per", "to", "many")))
    ]


def _is_question(text: str) -> bool:
    first, second, *_ = [*_WORD.findall(text)[:2], "", ""]
    opens = first in _set("yes_no") or (
        first in _ASKING and (first not in ("when", "where") or second in _set("yes_no"))
    )
    return "?" in text or opens


_ASKING = {
    "when": "time", "where": "place", "why": "reason", "how": "manner", "which": "what", "what": "what",
    "whose": "who", "who": "who",
}  # fmt: skip


def _asks(tokens: list[str], is_question: bool) -> str:
    if not is_question and not tokens[0].startswith(_MARK) and tokens[:2] != ["what", "@meaning"]:
        return ""
    for token in tokens:
        if token in _ASKING:
            return _ASKING[token]
        if token.startswith(_MARK) and token not in ("@list", "@explain", "@asks"):
            return token.removeprefix(_MARK)
    if tokens[:1] == ["@list"]:
        return "what"
    if tokens[:1] == ["@explain"]:
        return "explain"
    return "yes or no" if tokens[0] in _set("yes_no") else ""


def _words(tokens: list[str], names: set[str], bare: frozenset[str]) -> tuple[Word, ...]:
    found = []
    behind = ""
    for at, token in enumerate(tokens):
        if token in _set("prepositions") or token in _set("directions"):
            behind = token
        is_bare = token in bare or token.startswith(_LITERAL)
        if not is_bare and (token in _set("light") or token.startswith(_MARK) or token in _set("negations")):
            continue
        asked = at > 0 and tokens[at - 1] in ("which", "what")
        found.append(Word(token, lexicon().lemma(token), behind, at, token in names, asked, is_bare))
        behind = ""
    return tuple(found)


def _joins(tokens: list[str]) -> frozenset[frozenset[str]]:
    """Words on both sides of "and", "or" and the like, which may change places."""
    return frozenset(
        frozenset((lexicon().lemma(tokens[n - 1]), lexicon().lemma(tokens[n + 1])))
        for n in range(1, len(tokens) - 1)
        if tokens[n] in ("and", "or", "vs", "versus")
    )
