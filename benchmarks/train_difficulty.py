"""Writes router/difficulty.npy and .json: the weights of P(the cloud's answer is better).

    python -m benchmarks.train_difficulty --data DIR        # the folder with gsm8k.csv and mmlu.csv

The same data give the same bytes. What is learned from, and what it is worth: docs/routing.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import tomllib
from pathlib import Path

import numpy as np

from benchmarks.difficulty_fit import Labelled, Training, train
from benchmarks.routing_data import Recorded, read_recorded
from router.question import HAND

PROMPTS = Path(__file__).with_name("ordinary_prompts.toml")
OUT = Path(__file__).parent.parent / "router"


def ordinary(part: str) -> Labelled:
    """Of ordinary_prompts.toml: train, with what is pasted, or held_out."""
    told = tomllib.loads(PROMPTS.read_text(encoding="utf-8"))[part]
    pasted = told.get("pasted", {"materials": ()})
    for material, label in itertools.product(pasted["materials"], ("easy", "hard")):
        told[label] += [f"{ask}\n{material}" for ask in pasted[label]]
    return Labelled(
        told["easy"] + told["hard"], np.repeat([0.0, 1.0], [len(told["easy"]), len(told["hard"])])
    )


def exams(questions: list[Recorded]) -> Labelled:
    gain = [int(q.strong_correct) - int(q.weak_correct) for q in questions]
    return Labelled([q.prompt for q in questions], np.array(gain, float))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=OUT, metavar="DIR")
    args = parser.parse_args()
    recorded = read_recorded(args.data, "mmlu") + read_recorded(args.data, "gsm8k")
    scorer = train(Training(ordinary("train"), exams(recorded)))
    np.save(args.out / "difficulty.npy", scorer.weights.astype(np.float16), allow_pickle=False)
    told = {
        "cap": scorer.cap,
        "slope": round(scorer.slope, 4),
        "offset": round(scorer.offset, 4),
        "counts": list(HAND),
    }
    (args.out / "difficulty.json").write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
