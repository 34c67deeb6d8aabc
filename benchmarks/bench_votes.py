"""Self-consistency as one batched decode: what four answers cost beside one, and what their agreement tells.

python -m benchmarks.bench_votes --questions open.jsonl        # see gold.py
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.open_answers import WINDOW_TOKENS, is_right
from benchmarks.ranking import auroc, interval
from benchmarks.record import Record, arguments, recording
from benchmarks.train_difficulty import ordinary
from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions
from localchat.weights import Catalog
from router.confidence import agreement, judge, log_odds, with_agreement
from router.request import ChatRequest, Delta, Message, Sampling, TokenScore

VOTES = 4
ANSWER_TOKENS = 10
TEMPERATURE = 0.7  # that of the self-consistency paper, arXiv 2203.11171
ASKED = "Answer in at most three words. "


@dataclass(frozen=True, slots=True)
class Voted:
    right: bool
    scores: tuple[TokenScore, ...]
    answers: tuple[str, ...]
    calls: dict[int, int]
    seconds: dict[int, float]


async def vote(model: EngineModel, question: dict[str, Any]) -> Voted:
    """A greedy answer, which is judged, then one and four drawn ones."""
    messages = (Message("user", ASKED + question["question"]),)
    greedy = ChatRequest(messages, Sampling(temperature=0.0, max_tokens=ANSWER_TOKENS))
    deltas = [event async for event in model.stream(greedy) if isinstance(event, Delta)]
    drawn = ChatRequest(messages, Sampling(temperature=TEMPERATURE, seed=1, max_tokens=ANSWER_TOKENS))
    calls, seconds = dict[int, int](), dict[int, float]()
    answers: tuple[str, ...] = ()
    for count in (1, VOTES):
        started = time.perf_counter()
        votes = await model.vote(drawn, count)
        seconds[count] = time.perf_counter() - started
        calls[count], answers = votes.decode_calls, votes.answers
    text = "".join(delta.text for delta in deltas)
    scores = tuple(score for delta in deltas for score in delta.scores)
    return Voted(is_right(text, question["answers"]), scores, answers, calls, seconds)


async def all_votes(path: Path, questions: Sequence[dict[str, Any]]) -> list[Voted]:
    model = EngineModel(path.name, LoadOptions(str(path), WINDOW_TOKENS))
    try:
        return [await vote(model, question) for question in questions]
    finally:
        await model.close()


def asked(file: Path | None) -> list[dict[str, Any]]:
    """Without a file ordinary prompts, to which no right answers are known: then only costs are told."""
    if file:
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [{"question": text, "answers": []} for text in ordinary("held_out").texts]


def told_apart(record: Record, name: str, voted: Sequence[Voted]) -> None:
    wrong = np.array([not v.right for v in voted])
    shares = [agreement(v.answers) for v in voted]
    judged = [judge(v.scores, "", name) for v in voted]
    both = [with_agreement(j, share, VOTES) for j, share in zip(judged, shares, strict=True)]
    for label, chances in (
        ("the scores", [log_odds(j.p_wrong) for j in judged]),
        ("agreement", [-share for share in shares]),
        ("both", [log_odds(j.p_wrong) for j in both]),
    ):
        scores = np.array(chances)
        low, high = interval(lambda s, w: auroc(s, w > 0.5), scores, wrong.astype(float))
        note = f"90 % within {low:.3f}-{high:.3f}; {100 * wrong.mean():.0f} % are wrong"
        record.row(f"AUROC of {label}", auroc(scores, wrong), note=note)


def main() -> None:
    parser: argparse.ArgumentParser = arguments(__doc__, repeats=1)
    parser.add_argument("--questions", type=Path, metavar="FILE", help="see gold.py; default: of our own")
    parser.add_argument("--model", type=Path, metavar="FILE", help="default: the default model")
    parser.add_argument("--count", type=int, default=200, metavar="N")
    args = parser.parse_args()
    questions = asked(args.questions)[-args.count :]
    with TemporaryDirectory() as folder, recording("votes", args) as record:
        path = args.model or Catalog(models=Path(folder), cache=Path(folder)).find("default").path
        voted = asyncio.run(all_votes(path, questions))
        calls = {count: sum(v.calls[count] for v in voted) for count in (1, VOTES)}
        seconds = {count: sum(v.seconds[count] for v in voted) for count in (1, VOTES)}
        ratio = calls[VOTES] / calls[1]
        record.row("steps of 4 over steps of 1", ratio, "", "≤ 1.3", f"{len(voted)} questions")
        record.row("seconds of 4 over seconds of 1", seconds[VOTES] / seconds[1])
        if args.questions:
            told_apart(record, path.name.lower(), voted)


if __name__ == "__main__":
    main()
