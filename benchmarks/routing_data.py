"""The questions whose answers by a weak and a strong model are recorded, and the right letters of some.

Owns how those files are read. The recorded answers are RouteLLM's (Mixtral-8x7B and GPT-4 on GSM8K and MMLU);
they hold no right answers, so MMLU's letters come from a file of their own (see gold.py).
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LONGEST_FIELD = 1 << 20  # characters; csv stops at 131,072 otherwise
SUFFIX = "\nAnswer:"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One question; ``group`` is the data set or, of MMLU, the subject."""

    group: str
    prompt: str
    weak_correct: bool
    strong_correct: bool

    @property
    def strong_is_better(self) -> bool:
        return self.strong_correct and not self.weak_correct


def data_folder(parser: argparse.ArgumentParser) -> None:
    """The flag --data, which may stand in the environment: `make bench` gives no flags."""
    usual = os.environ.get("LOCALCHAT_ROUTING_DATA")
    note = "the folder with gsm8k.csv and mmlu.csv"
    parser.add_argument("--data", type=Path, default=Path(usual) if usual else None, metavar="DIR", help=note)


def read_recorded(folder: Path, name: str) -> list[Recorded]:
    """``name`` is gsm8k or mmlu."""
    return [
        Recorded(row["group"], row["prompt"], row["weak_correct"] == "True", row["strong_correct"] == "True")
        for row in _rows(folder / f"{name}.csv")
    ]


def read_gold(file: Path) -> dict[str, str]:
    """The right letter by :func:`question_key`."""
    return {question_key(row["prompt"]): row["answer"] for row in _rows(file)}


def question_key(prompt: str) -> str:
    """What two copies of a question share: they differ in white space."""
    return " ".join(prompt.split())


def _rows(file: Path) -> Iterator[dict[str, str]]:
    csv.field_size_limit(LONGEST_FIELD)
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            yield from csv.DictReader(lines)
    except OSError as error:
        sys.exit(f"{file} cannot be read: {error.strerror}. Give the folder with --data.")
