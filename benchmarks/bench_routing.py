"""How well difficulty ranks questions for a stronger model: GSM8K and MMLU, 5-fold, and ordinary prompts.

    python -m benchmarks.bench_routing --data DIR       # the folder with gsm8k.csv and mmlu.csv

"As shipped" fits all that ships, ordinary prompts and exam questions, to four fifths and ranks the rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.difficulty_fit import RIDGE, Array, Labelled, Table, Training, folds, ridge, train
from benchmarks.ranking import apgr, auroc, cpt, interval
from benchmarks.record import Record, arguments, recording
from benchmarks.routing_data import data_folder, read_recorded
from benchmarks.train_difficulty import exams, ordinary
from router.difficulty import difficulty
from router.question import features

AIM = "≥ 0.64"
PUBLISHED = {"gsm8k": ((0.622, 33.6), "causal LLM"), "mmlu": ((0.603, 35.4), "SW ranking")}
"""RouteLLM's best APGR and the CPT50 of the same router (arXiv 2406.18665, tables 2 and 3)."""
REPEATS = 3  # 5-fold splits with other seeds
HARD = 0.5
PASTE = "word " * 40_000


def unseen(questions: Labelled, others: Labelled, seed: int) -> Array:
    """Scores of ``questions``, each by a scorer that was fitted without it."""
    scores = np.zeros(len(questions.gain))
    for fitted, tested in folds(len(scores), seed=seed):
        known = questions.of(fitted)
        both = Labelled([*known.texts, *others.texts], np.concatenate([known.gain, others.gain]))
        scorer = train(Training(ordinary("train"), both))
        scores[tested] = [scorer.score(features(questions.texts[i])) for i in tested]
    return scores


def alone(fitted: Labelled, tested: Labelled, strength: float) -> Array:
    """Scores by one set of weights, whatever the form of a question."""
    weights = ridge(fitted, strength)
    return Table.of(tested.texts).times(weights)


def ranked(record: Record, name: str, scores: Sequence[Array], gain: Array, aim: str = "") -> None:
    low, high = interval(apgr, scores[0], gain)
    record.row(f"{name}: APGR", [apgr(s, gain) for s in scores], "", aim, f"90 % within {low:.3f}-{high:.3f}")
    low, high = interval(cpt, scores[0], gain)
    record.row(f"{name}: CPT50", [cpt(s, gain) for s in scores], "%", "", f"90 % within {low:.1f}-{high:.1f}")


def one_set(record: Record, name: str, questions: Labelled, others: Labelled) -> None:
    gain = questions.gain
    (best_apgr, best_cpt), router = PUBLISHED[name]
    record.row(f"{name}, random: APGR", 0.5, note=f"{len(gain):,} questions; CPT50 50 %")
    record.row(f"{name}, RouteLLM's best: APGR", best_apgr, note=f"{router}, published; CPT50 {best_cpt} %")
    ranked(record, f"{name}, length alone", [np.array([len(t) for t in questions.texts], float)], gain)
    shipped = [unseen(questions, others, seed) for seed in range(REPEATS)]
    ranked(record, f"{name}, as shipped", shipped, gain, AIM)
    across = alone(others, questions, RIDGE["options"])
    ranked(record, f"{name}, fitted on the other set alone", [across], gain)


def prompts(record: Record) -> None:
    held_out = ordinary("held_out")
    chances, hard = np.array([difficulty(text) for text in held_out.texts]), held_out.gain > 0
    record.row("held-out ordinary prompts: AUROC", auroc(chances, hard), note=f"{len(hard)}, written by us")
    record.row("easy ones that stay", 100 * float((chances[~hard] < HARD).mean()), "%")
    record.row("hard ones that go", 100 * float((chances[hard] >= HARD).mean()), "%")


def percentile_ms(work: Callable[[str], object], texts: Sequence[str]) -> float:
    took = []
    for text in texts:
        started = time.perf_counter()
        work(text)
        took.append(1000 * (time.perf_counter() - started))
    return float(np.quantile(took, 0.99))


def repeated(work: Callable[[str], object], texts: Sequence[str], repeats: int) -> list[float]:
    return [percentile_ms(work, texts) for _ in range(repeats)]


def main() -> None:
    parser = arguments(__doc__, repeats=5)
    data_folder(parser)
    args = parser.parse_args()
    with recording("routing", args) as record:
        prompts(record)
        texts = ordinary("train").texts
        record.row("p99 of a question", repeated(difficulty, texts, args.repeats), "ms", "≤ 1")
        record.row("p99 of 40,000 words", repeated(difficulty, [PASTE] * 200, args.repeats), "ms", "≤ 1")
        if args.data is not None:
            sets = {name: exams(read_recorded(args.data, name)) for name in ("gsm8k", "mmlu")}
            one_set(record, "gsm8k", sets["gsm8k"], sets["mmlu"])
            one_set(record, "mmlu", sets["mmlu"], sets["gsm8k"])


if __name__ == "__main__":
    main()
