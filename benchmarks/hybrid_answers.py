"""A local model answers MMLU questions by a one-letter grammar; each answer and its score is kept in a file.

    python -m benchmarks.hybrid_answers --data DIR --model FILE.gguf --answers FILE.jsonl

Stopped, it goes on where it was. The order is a fixed shuffle, so the first n answers are a random sample.
What the answers are worth is bench_hybrid.py's business.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.routing_data import SUFFIX, Recorded, read_recorded
from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions
from router.request import ChatRequest, Delta, Message, ResponseFormat, Sampling, TokenScore

ORDER_SEED = 6
INSTRUCTION = "Answer the following multiple choice question with one letter.\n\n"
BEGUN = "Answer:"  # the answer's beginning is given, so that its first token is the letter
LETTER = ResponseFormat("regex", " [ABCD]")
WINDOW_TOKENS = 2048  # the longest question has 3,053 characters


@dataclass(frozen=True, slots=True)
class Answer:
    """``index`` of the question in the record; ``score`` of the letter, before the grammar."""

    index: int
    letter: str
    score: TokenScore

    def as_json(self) -> str:
        s = self.score
        return json.dumps([self.index, self.letter, s.logprob, s.margin, s.entropy])


def read_answers(file: Path) -> list[Answer]:
    lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    return [Answer(index, letter, TokenScore(*score)) for index, letter, *score in map(json.loads, lines)]


def order(count: int) -> list[int]:
    indices = list(range(count))
    random.Random(ORDER_SEED).shuffle(indices)
    return indices


def letter_request(question: Recorded) -> ChatRequest:
    text = INSTRUCTION + question.prompt.removesuffix(SUFFIX)
    messages = (Message("user", text), Message("assistant", BEGUN))
    return ChatRequest(messages, Sampling(temperature=0.0, max_tokens=2), LETTER)


async def answer(model: EngineModel, index: int, question: Recorded) -> Answer:
    deltas = [event async for event in model.stream(letter_request(question)) if isinstance(event, Delta)]
    letter = "".join(delta.text for delta in deltas).strip()
    scores = [score for delta in deltas for score in delta.scores if not score.forced]
    return Answer(index, letter, scores[-1])


async def collect(args: argparse.Namespace) -> None:
    questions = read_recorded(args.data, "mmlu")
    done = {known.index for known in read_answers(args.answers)}
    wanted: Iterator[int] = (i for i in order(len(questions))[: args.questions] if i not in done)
    model = EngineModel(args.model.name, LoadOptions(str(args.model), WINDOW_TOKENS, args.threads))
    try:
        with args.answers.open("a", encoding="utf-8") as file:
            for index in wanted:
                file.write((await answer(model, index, questions[index])).as_json() + "\n")
                file.flush()
    finally:
        await model.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder with mmlu.csv")
    parser.add_argument("--model", type=Path, required=True, metavar="FILE")
    parser.add_argument("--answers", type=Path, required=True, metavar="FILE")
    parser.add_argument("--questions", type=int, default=1500, metavar="N")
    parser.add_argument("--threads", type=int, default=0, help="default: chosen for this machine")
    asyncio.run(collect(parser.parse_args()))


if __name__ == "__main__":
    main()
