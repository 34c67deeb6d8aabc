"""Writes router/confidence.json: the chance that a local answer is wrong, from its first tokens' scores.

    python -m benchmarks.train_confidence --text NAME=open_answers.jsonl ... \
        --short NAME=letters.jsonl ... --data DIR --gold mmlu_gold.csv

NAME is a part of the model's name by which it is known at run time. Of each file only the first half of the
answers is learned from; bench_hybrid.py and bench_confidence.py report on the second.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.hybrid_answers import Answer, read_answers
from benchmarks.open_answers import OpenAnswer, read_open_answers
from benchmarks.routing_data import question_key, read_gold, read_recorded
from router.confidence import FEATURES, Weights, measured

OUT = Path(__file__).parent.parent / "router" / "confidence.json"
PENALTY = 2.0  # on the weights of standardised features: little beside hundreds of answers
LEAST_TOKENS = 16  # answers are judged after 16 tokens and after 32: both are learned from
DIGITS = 4

SIGNS = np.array([-1, -1, -1, -1, 1, 1, 1, -1, -1, 0, 1])
"""Of the weights, in FEATURES' order: surer tokens never make an answer likelier wrong; 0: either."""

Array = npt.NDArray[np.float64]


def learned_from(answers: Sequence[object]) -> int:
    """So many of the first answers."""
    return len(answers) // 2


def logistic(values: Array, wrong: Array) -> tuple[Array, float]:
    """Weights of standardised features and an offset, by Newton's method."""
    design = np.column_stack([values, np.ones(len(values))])
    penalty = np.diag([PENALTY] * values.shape[1] + [1e-6])
    line = np.zeros(design.shape[1])
    for _ in range(30):
        p = 1 / (1 + np.exp(-design @ line))
        curve = (design * (p * (1 - p))[:, None]).T @ design + penalty
        line -= np.linalg.solve(curve, design.T @ (p - wrong) + penalty @ line)
    return line[:-1], float(line[-1])


def signed(values: Array, wrong: Array) -> tuple[Array, float]:
    """As :func:`logistic`, without the features that would weigh the wrong way round, one after another."""
    kept = np.arange(values.shape[1])
    while True:
        line, offset = logistic(values[:, kept], wrong)
        against = -line * SIGNS[kept]
        if not len(kept) or against.max() <= 0:
            weights = np.zeros(values.shape[1])
            weights[kept] = line
            return weights, offset
        kept = np.delete(kept, int(against.argmax()))


def fit(model: str, rows: Sequence[Sequence[float]], wrong: Sequence[bool]) -> Weights:
    values = np.array(rows, float)
    mean, spread = values.mean(axis=0), values.std(axis=0)
    spread[spread < 1e-9] = 1.0  # a feature that is the same for all answers weighs nothing
    weights, offset = signed((values - mean) / spread, np.array(wrong, float))
    return Weights(model, kept(mean), kept(spread), kept(weights), round(offset, DIGITS))


def kept(numbers: Array) -> tuple[float, ...]:
    """As they are written down."""
    return tuple(round(float(number), DIGITS) for number in numbers)


def fit_text(model: str, answers: Sequence[OpenAnswer]) -> Weights:
    cuts = [(a, len(a.scores)) for a in answers] + [
        (a, LEAST_TOKENS) for a in answers if len(a.scores) > LEAST_TOKENS
    ]
    rows = [measured(a.scores[:count], a.text) for a, count in cuts]
    return fit(model, rows, [not a.right for a, _ in cuts])


def fit_short(model: str, answers: Sequence[Answer], right: Sequence[bool]) -> Weights:
    return fit(model, [measured([a.score], a.letter) for a in answers], [not r for r in right])


def right_letters(answers: Sequence[Answer], data: Path, gold: Path) -> list[bool]:
    questions, letters = read_recorded(data, "mmlu"), read_gold(gold)
    return [letters.get(question_key(questions[a.index].prompt)) == a.letter for a in answers]


def named_file(text: str) -> tuple[str, Path]:
    name, _, file = text.partition("=")
    return name, Path(file)


def named_files(parser: argparse.ArgumentParser, flag: str, note: str) -> None:
    parser.add_argument(flag, type=named_file, nargs="+", default=[], metavar="NAME=FILE", help=note)


def as_json(weights: Weights) -> dict[str, object]:
    return {
        "model": weights.model,
        "mean": weights.mean,
        "spread": weights.spread,
        "weights": weights.weights,
        "offset": weights.offset,
    }


def laid_out(told: dict[str, object]) -> str:
    """JSON with a line for each list of numbers."""
    text = json.dumps(told, indent=1)
    return re.sub(r"\[[^\[\]{}]*\]", lambda found: " ".join(found[0].split()), text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    named_files(parser, "--text", "see open_answers.py")
    named_files(parser, "--short", "see hybrid_answers.py")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--gold", type=Path, required=True, metavar="FILE", help="see gold.py")
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE")
    args = parser.parse_args()
    fitted: dict[str, list[dict[str, object]]] = {"text": [], "short": []}
    for name, file in args.text:
        answers = read_open_answers(file)
        fitted["text"].append(as_json(fit_text(name, answers[: learned_from(answers)])))
    for name, file in args.short:
        letters = read_answers(file)
        letters = letters[: learned_from(letters)]
        fitted["short"].append(
            as_json(fit_short(name, letters, right_letters(letters, args.data, args.gold)))
        )
    args.out.write_text(laid_out({"features": FEATURES, **fitted}), encoding="utf-8")


if __name__ == "__main__":
    main()
