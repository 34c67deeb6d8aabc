"""Public questions as streams: one after another, each answered from those before it or not.

Owns how the data are read, what counts as the right answer in each, and how a stream runs
through a policy. The embedder and the guards are the product's.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from router.cache.embed import Embedder, Vector
from router.cache.finder import CANDIDATES
from router.cache.key import normalised
from router.cache.perishable import perishable

LOWEST = 0.8  # possible hits less similar than this are not looked for


@dataclass(frozen=True, slots=True)
class Question:
    """``answer`` names the right answer: an intent, or a group of paraphrases."""

    text: str
    answer: str


@dataclass(frozen=True, slots=True)
class Hit:
    asked: Question
    stored: Question
    similarity: float

    @property
    def is_right(self) -> bool:
        return self.asked.answer == self.stored.answer


Policy = Callable[[str, str, float], bool]
"""Whether the answer to a stored text may be served: (asked, stored, similarity)."""


def banking77(data: Path, split: str) -> list[Question]:
    with (data / f"banking77_{split}.csv").open(encoding="utf-8") as file:
        return [Question(row["text"], row["category"]) for row in csv.DictReader(file)]


def clinc150(data: Path, splits: Iterable[str]) -> list[Question]:
    """Questions out of scope have no answer in common with any other."""
    found = json.loads((data / "clinc150.json").read_text(encoding="utf-8"))
    return [
        Question(text, intent if intent != "oos" else f"oos {split} {n}")
        for split in splits
        for n, (text, intent) in enumerate(found[split])
    ]


def paraphrases(data: Path, merge: Iterable[tuple[str, str]] = ()) -> list[Question]:
    """The 999 pairs; those that share a text have one answer, and so have the texts in ``merge``."""
    pairs = json.loads((data / "paraphrases.json").read_text(encoding="utf-8"))
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            name = parent[name]
        return name

    for n, pair in enumerate(pairs):
        for text in (pair["origin"], pair["similar"]):
            parent[root(_plain(text))] = root(f"pair {n}")
    for one, other in merge:
        parent[root(_plain(one))] = root(_plain(other))
    return [
        Question(pair[k], root(f"pair {n}")) for n, pair in enumerate(pairs) for k in ("origin", "similar")
    ]


def _plain(text: str) -> str:
    return normalised(text).replace("`", "").lower()


def shuffled(questions: Sequence[Question], seed: int = 0) -> list[Question]:
    found = list(questions)
    random.Random(seed).shuffle(found)
    return found


def lasting(questions: Iterable[Question]) -> list[Question]:
    """Those that the cache would serve at all: not of a time, a place or a person."""
    return [question for question in questions if not perishable(question.text, "en")]


def vectors_of(questions: Iterable[Question], embedder: Embedder) -> dict[str, Vector]:
    found: dict[str, Vector] = {}
    for question in questions:
        if question.text not in found and (vector := embedder.embed(question.text)) is not None:
            found[question.text] = vector
    return found


def ideal_hit_rate(stream: Sequence[Question]) -> float:
    seen: set[str] = set()
    hits = 0
    for question in stream:
        hits += question.answer in seen
        seen.add(question.answer)
    return hits / len(stream)


def run(
    stream: Sequence[Question],
    vectors: dict[str, Vector],
    may_serve: Policy,
    *,
    lowest: float = LOWEST,
    keep_all: bool = False,
    is_eligible: Callable[[str], bool] = lambda text: True,
) -> list[Hit]:
    """The hits, in order. A miss is kept, as the cloud's answer would be; ``keep_all``: a hit too."""
    matrix = np.zeros((len(stream), next(iter(vectors.values())).shape[0]), dtype=np.float32)
    kept: list[Question] = []
    exact: dict[str, Question] = {}
    hits: list[Hit] = []
    for asked in stream:
        if not is_eligible(asked.text):
            continue
        hit = _same(asked, exact) or _similar(asked, vectors, matrix, kept, may_serve, lowest)
        if hit:
            hits.append(hit)
        if (keep_all or not hit) and asked.text in vectors:
            matrix[len(kept)] = vectors[asked.text]
            kept.append(asked)
        exact.setdefault(normalised(asked.text), asked)
    return hits


def _same(asked: Question, exact: dict[str, Question]) -> Hit | None:
    stored = exact.get(normalised(asked.text))
    return Hit(asked, stored, 1.0) if stored else None


def _similar(
    asked: Question,
    vectors: dict[str, Vector],
    matrix: Vector,
    kept: list[Question],
    may_serve: Policy,
    lowest: float,
) -> Hit | None:
    if asked.text not in vectors or not kept:
        return None
    scores = matrix[: len(kept)] @ vectors[asked.text]
    for row in np.argsort(-scores)[:CANDIDATES]:
        similarity = float(scores[row])
        if similarity < lowest:
            return None
        if may_serve(asked.text, kept[row].text, similarity):
            return Hit(asked, kept[row], similarity)
    return None
