"""What can be measured of a question without understanding it: its form, its n-grams and a few counts.

Owns the features that router.difficulty weighs. Knows no weights. At most READ_CHARACTERS +
READ_AT_END characters are looked at, so that a pasted book costs what a page costs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from zlib import crc32

import numpy as np
import numpy.typing as npt

READ_CHARACTERS, READ_AT_END = 2400, 600  # what is asked stands at the beginning or at the end
BUCKETS = 1 << 14  # that n-grams are hashed into
BIGRAM_SALT = 0x9E3779B9  # any constant, so that the pair "in to" and the word "into" differ

_TOKEN = re.compile(rb"[a-z]+(?:'[a-z]+)?|[0-9]|[^\sa-z0-9]")
_NUMBER = re.compile(r"\d[\d,.]*")
_OPTION = re.compile(r"^[ \t]*\(?[A-E][.)] ", re.MULTILINE)
_CODE = re.compile(r"[`{};][`\n]|[a-z0-9]\([a-z]*\)|::|=>|[a-z]_[a-z]|</[a-z]")
_SYMBOL = re.compile(r"[=^√∑∫∂≤≥≠±×÷∀∃∈→λπθ\\]")

WORDS: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "proof": "prove proof proofs proving derive derives deriving derivation theorem theorems lemma "
        "rigorous rigorously formally axioms induction contradiction corollary",
        "analysis": "analyze analyse analyzing analysing analysis evaluate evaluating compare comparing "
        "contrast tradeoff tradeoffs trade-offs implications critique critically argue discuss "
        "assess justify depth detailed detail comprehensive thorough thoroughly rationale "
        "consequences strategy nuanced synthesize",
        "engineering": "implement implementing implementation design designing architect architecture "
        "algorithm algorithms optimize optimise optimization refactor debug concurrency concurrent "
        "distributed complexity compiler parser schema kubernetes deadlock race scalable "
        "microservices lock-free async asynchronous backend database cache pipeline protocol "
        "consensus latency throughput",
        "mathematics": "integral integrals integrate derivative derivatives differential equation equations "
        "matrix matrices eigenvalue eigenvalues eigenvectors polynomial polynomials probability "
        "vector vectors manifold topology topological convergence converges prime primes modulo "
        "modular tensor tensors mathematics mathematical mathematically calculus algebra geometry "
        "statistics variance bayesian stochastic gradient limit series group ring field "
        "isomorphism continuous bijection combinatorial expectation",
        "science": "quantum thermodynamics thermodynamic entropy relativity molecular molecules enzyme "
        "enzymes kinetics genome proteins protein neural semiconductor equilibrium "
        "electromagnetic hamiltonian entanglement epistemology metaphysics jurisprudence "
        "pathophysiology pharmacology macroeconomic monetary fiscal schrodinger maxwell "
        "lagrangian photon fermions superconductivity mitochondrial immunology orbital",
        "quantities": "each every per twice thrice half third quarter times total remaining left altogether "
        "average many much more less fewer than sum difference cost costs price earn earns spend "
        "spends hour hours minutes days weeks miles dollars percent percentage ratio calculate "
        "number pounds years older younger",
        "conditions": "if given assuming assume suppose such must unless without constraint constraints "
        "except exactly subject whenever otherwise cannot",
        "negations": "not never none neither except least incorrect false nor cannot",
        "talk": "hi hello hey hiya yo thanks thank bye goodbye morning night you your joke favorite "
        "favourite fun cute nice cool ok okay please good sorry welcome howdy lol sup",
        "simple": "capital translate synonym synonyms antonym antonyms spell spelling define meaning plural "
        "rhyme rhymes convert capitalize summarize summarise rewrite shorten grammar typo typos "
        "recipe title titles haiku caption birthday color colour celsius fahrenheit alphabet past "
        "tense opposite emoji slogan",
        "reasons": "why how",
        "facts": "what who when where which whose name list",
    }.items()
}
"""Of each kind the different words in the text are counted."""

NUMBER_WORDS = frozenset(
    b"two three four five six seven eight nine ten dozen hundred half twice third".split()
)

MEASURED = (
    "length",
    "words",
    "word length",
    "shortness",
    "numbers",
    "digits",
    "sentences",
    "lines",
    "options",
    "blanks",
    "percent",
    "money",
    "symbols",
    "code",
    "questions",
    "long words",
)
HAND = (*MEASURED, *WORDS)
SIZE = BUCKETS + len(HAND)

Form = Literal["plain", "options", "quantities"]
"""options: one of several given answers is to be chosen; quantities: numbers in a story ask for another."""

FEWEST_OPTIONS, FEWEST_NUMBERS, FEWEST_WORDS = 3, 2, 12  # of the two special forms

Indices = npt.NDArray[np.int64]
Values = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Features:
    """``buckets`` of n-grams, each once, with ``values`` of length 1 together; ``counts`` in HAND's order."""

    form: Form
    buckets: Indices
    values: Values
    counts: Values


def features(text: str) -> Features:
    read = bounded(text)
    tokens = _TOKEN.findall(read.lower().encode("utf-8", "replace"))
    counts = dict(zip(HAND, _measured(read, tokens) + _word_counts(tokens), strict=True))
    hand = np.log1p(np.array(list(counts.values()), np.float32))
    return Features(_form(counts), *_ngrams(tokens), hand)


def _form(counts: dict[str, float]) -> Form:
    if counts["options"] >= FEWEST_OPTIONS:
        return "options"
    told = counts["numbers"] >= FEWEST_NUMBERS and counts["words"] >= FEWEST_WORDS
    return "quantities" if told and counts["quantities"] else "plain"


def bounded(text: str) -> str:
    if len(text) <= READ_CHARACTERS + READ_AT_END:
        return text
    return text[:READ_CHARACTERS] + "\n" + text[-READ_AT_END:]


def _ngrams(tokens: Sequence[bytes]) -> tuple[Indices, Values]:
    """Buckets of words and pairs, each weighing the root of its count; the vector has length 1."""
    words = list(map(crc32, tokens))
    pairs = np.fromiter(map(crc32, tokens[1:], words), np.int64) ^ BIGRAM_SALT
    buckets = np.concatenate([np.array(words, np.int64), pairs]) % BUCKETS
    indices, counts = np.unique(buckets, return_counts=True)
    values: Values = np.sqrt(counts).astype(np.float32)
    length = np.float32(max(1.0, float(np.linalg.norm(values))))
    return indices, (values / length).astype(np.float32)


def _measured(text: str, tokens: Sequence[bytes]) -> list[float]:
    """In the order of MEASURED; the logarithm is taken of all."""
    words = text.split()
    return [
        len(text),
        len(words),
        len(text) / (len(words) + 1),
        30 / (len(words) + 3),
        len(_NUMBER.findall(text)) + sum(token in NUMBER_WORDS for token in tokens),
        sum(map(str.isdigit, text)) if len(text) < READ_CHARACTERS else 0,
        text.count(". ") + text.count("? ") + text.count("! ") + 1,
        text.count("\n"),
        len(_OPTION.findall(text)),
        text.count("__"),
        text.count("%"),
        text.count("$"),
        len(_SYMBOL.findall(text)),
        len(_CODE.findall(text)),
        text.count("?"),
        sum(len(token) > 9 for token in tokens),
    ]


def _word_counts(tokens: Sequence[bytes]) -> list[float]:
    found = {token.decode("ascii", "replace") for token in set(tokens) if len(token) > 1}
    return [len(found & words) for words in WORDS.values()]
