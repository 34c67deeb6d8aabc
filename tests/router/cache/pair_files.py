"""Reads the pairs of questions in ``pairs/``: look-alikes with different answers, and paraphrases."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAIRS = Path(__file__).with_name("pairs")


@dataclass(frozen=True, slots=True)
class Pair:
    kind: str
    one: str
    other: str


def lookalikes(name: str = "lookalikes") -> tuple[Pair, ...]:
    """Two questions that differ in one word, or in one exchange of words, and in their answers."""
    return tuple(Pair(*line.split("\t")) for line in _lines(name))


def paraphrases(name: str = "paraphrases") -> tuple[Pair, ...]:
    return tuple(Pair("paraphrase", *line.split("\t")) for line in _lines(name))


def _lines(name: str) -> list[str]:
    text = (PAIRS / f"{name}.tsv").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]
