"""A local model and a cloud together on MMLU: accuracy against the share that goes to the cloud.

    python -m benchmarks.bench_hybrid --data DIR --gold mmlu_gold.csv \
        --answers NAME=letters.jsonl ... [--text NAME=open.jsonl ...]

The local model's letters were collected by hybrid_answers.py; the cloud is the recorded GPT-4. Confidence
is by the shipped weights, fitted to the first half of each file: all figures here are of the second half.
Difficulty is by weights that were fitted without any of the questions answered, unlike those shipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.difficulty_fit import Training, train
from benchmarks.hybrid_answers import read_answers
from benchmarks.open_answers import read_open_answers
from benchmarks.ranking import Array, Truths, apgr, auroc, interval, recovered
from benchmarks.record import Record, arguments, recording
from benchmarks.routing_data import Recorded, data_folder, read_recorded
from benchmarks.train_confidence import learned_from, named_files, right_letters
from benchmarks.train_difficulty import exams, ordinary
from router.confidence import SURE, judge, log_odds
from router.difficulty import Scorer
from router.question import features
from router.request import TokenScore

SHARES = (0.1, 0.2, 0.3, 0.5)
CUTS = (16, 32)


def rule(scores: Sequence[TokenScore]) -> float:
    """How far the plain rule sees a token below SURE: 1 where the mean probability is."""
    return float(np.mean([np.exp(s.logprob) for s in scores]) < SURE)


def letters(record: Record, name: str, file: Path, data: Path, gold: Path) -> None:
    answers = read_answers(file)
    record.row(f"{name}: answers", len(answers), note="the second half is reported on")
    learned = learned_from(answers)
    right = np.array(right_letters(answers, data, gold))
    asked = read_recorded(data, "mmlu")
    questions = [asked[answer.index] for answer in answers]
    strong = np.array([q.strong_correct for q in questions])
    chance = np.array([log_odds(judge([a.score], a.letter, name).p_wrong) for a in answers])
    rules = np.array([rule([a.score]) for a in answers])
    record.row(f"{name}: right alone", 100 * float(right[learned:].mean()), "%")
    record.row(f"{name}: the cloud alone", 100 * float(strong[learned:].mean()), "%")
    told_apart(record, name, chance[learned:], rules[learned:], ~right[learned:])
    gain = strong.astype(float) - right
    alone = float(right[learned:].mean())
    answered = {answer.index for answer in answers}
    others = [question for index, question in enumerate(asked) if index not in answered]
    scorer = train(Training(ordinary("train"), exams(others)))
    for label, scores in orders(scorer, questions, chance, gain, learned).items():
        reached(record, f"{name} by {label}", scores[learned:], gain[learned:], alone)


def orders(
    scorer: Scorer, questions: Sequence[Recorded], chance: Array, gain: Array, learned: int
) -> dict[str, Array]:
    """By what the questions could be sent first; how both are weighed is learned from the first half."""
    hard = np.array([scorer.score(features(q.prompt)) for q in questions])
    design = np.column_stack([hard, chance, np.ones_like(hard)])
    line = np.linalg.lstsq(design[:learned], gain[:learned], rcond=None)[0]
    length = np.array([len(q.prompt) for q in questions], float)
    return {"length": length, "difficulty": hard, "confidence": chance, "both": design @ line}


def reached(record: Record, name: str, scores: Array, gain: Array, alone: float) -> None:
    curve = recovered(scores, gain) * gain.mean()
    at = [100 * (alone + float(curve[round(share * len(gain))])) for share in SHARES]
    told = " · ".join(f"{share:.0%} sent {value:.1f} %" for share, value in zip(SHARES, at, strict=True))
    low, high = interval(apgr, scores, gain)
    record.row(f"{name}: APGR", apgr(scores, gain), "", "", f"{low:.3f}-{high:.3f}; {told}")


def told_apart(record: Record, name: str, chance: Array, plain_rule: Array, wrong: Truths) -> None:
    """AUROC of confidence and of the plain rule, and how honest the probabilities are."""
    for label, scores in (("confidence", chance), ("the .8 rule", plain_rule)):
        low, high = interval(lambda s, w: auroc(s, w > 0.5), scores, wrong.astype(float))
        within = f"90 % within {low:.3f}-{high:.3f}"
        record.row(f"{name}: AUROC of {label}", auroc(scores, wrong), "", "", within)
    record.row(f"{name}: sent by the .8 rule", 100 * float(plain_rule.mean()), "%")
    p = 1 / (1 + np.exp(-chance))
    note = f"really {100 * wrong.mean():.1f} %; Brier {np.mean((p - wrong) ** 2):.3f}"
    record.row(f"{name}: said to be wrong, in the mean", 100 * float(p.mean()), "%", "", note)


def free_text(record: Record, name: str, file: Path) -> None:
    answers = read_open_answers(file)
    record.row(f"{name}, own words: answers", len(answers), note="the second half is reported on")
    answers = answers[learned_from(answers) :]
    wrong = np.array([not a.right for a in answers])
    for cut in CUTS:
        chance = [log_odds(judge(a.scores[:cut], a.text, name).p_wrong) for a in answers]
        rules = np.array([rule(a.scores[:cut]) for a in answers])
        told_apart(record, f"{name}, own words, {cut} tokens", np.array(chance), rules, wrong)


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    data_folder(parser)
    parser.add_argument("--gold", type=Path, metavar="FILE", help="see gold.py")
    named_files(parser, "--answers", "see hybrid_answers.py")
    named_files(parser, "--text", "see open_answers.py")
    args = parser.parse_args()
    if args.answers and not (args.data and args.gold):
        parser.error("--answers needs --data and --gold")
    if not (args.answers or args.text):
        print("Nothing to report on: collect answers first, see docs/routing.md.")
        return
    with recording("hybrid", args) as record:
        for name, file in args.answers:
            letters(record, name, file, args.data, args.gold)
        for name, file in args.text:
            free_text(record, name, file)


if __name__ == "__main__":
    main()
