"""A local model answers questions in its own words; kept are each answer, its scores, whether it is right.

    python -m benchmarks.open_answers --questions open.jsonl --model FILE.gguf --answers FILE.jsonl

Right is an answer that contains one of the right ones, as whole words, whatever case. Stopped, it goes on
where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions
from router.request import ChatRequest, Delta, Message, Sampling, TokenScore

ANSWER_TOKENS = 48
KEPT_SCORES = 32  # what the gate may look at
WINDOW_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class OpenAnswer:
    question: str
    text: str
    right: bool
    scores: tuple[TokenScore, ...]

    def as_json(self) -> str:
        scores = [[s.logprob, s.margin, s.entropy] for s in self.scores]
        return json.dumps([self.question, self.text, self.right, scores])


def read_open_answers(file: Path) -> list[OpenAnswer]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [
        OpenAnswer(question, text, right, tuple(TokenScore(*score) for score in scores))
        for question, text, right, scores in map(json.loads, lines)
    ]


def is_right(text: str, answers: list[str]) -> bool:
    said = f" {_plain(text)} "
    return any(f" {_plain(answer)} " in said for answer in answers if _plain(answer))


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


async def answer(model: EngineModel, question: dict[str, Any]) -> OpenAnswer:
    request = ChatRequest(
        (Message("user", question["question"]),), Sampling(seed=1, max_tokens=ANSWER_TOKENS)
    )
    deltas = [event async for event in model.stream(request) if isinstance(event, Delta)]
    text = "".join(delta.text for delta in deltas)
    scores = tuple(score for delta in deltas for score in delta.scores)[:KEPT_SCORES]
    return OpenAnswer(question["question"], text, is_right(text, question["answers"]), scores)


async def collect(args: argparse.Namespace) -> None:
    questions = [json.loads(line) for line in args.questions.read_text(encoding="utf-8").splitlines()]
    done = len(read_open_answers(args.answers))
    model = EngineModel(args.model.name, LoadOptions(str(args.model), WINDOW_TOKENS, args.threads))
    try:
        with args.answers.open("a", encoding="utf-8") as file:
            for question in questions[done:]:
                file.write((await answer(model, question)).as_json() + "\n")
                file.flush()
    finally:
        await model.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--questions", type=Path, required=True, metavar="FILE", help="see gold.py")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE")
    parser.add_argument("--answers", type=Path, required=True, metavar="FILE")
    parser.add_argument("--threads", type=int, default=0, help="default: chosen for this machine")
    asyncio.run(collect(parser.parse_args()))


if __name__ == "__main__":
    main()
