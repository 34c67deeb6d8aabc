"""A model on some hardware -> does it fit, and how fast at each depth and number of threads.

Joins shape, memory and rates; commands show the result. Owns the question and its limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bandwidth_model.memory import Verdict
from bandwidth_model.predict import PROMPT_TOKENS, Conditions, Placement, Prediction, predict_split
from bandwidth_model.rates import Tier
from bandwidth_model.shape import ModelShape
from bandwidth_model.split import Split, split_verdict
from localchat.errors import UsageError
from localchat.hardware import Hardware

USUAL_DEPTHS = (0, 1024, 4096, 16384)
MAX_TOKENS = 2**24  # of depth, context or prompt; the longest context in the wild is 10 million


@dataclass(frozen=True, slots=True)
class Question:
    """``threads`` None: as many as are best. ``depths`` None: the usual ones within the context."""

    depths: tuple[int, ...] | None = None
    threads: tuple[int | None, ...] = (None,)
    prompt_tokens: int = PROMPT_TOKENS
    context: int | None = None
    kv_type: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    depth: int
    threads: int | None
    prediction: Prediction


@dataclass(frozen=True, slots=True)
class Estimate:
    shape: ModelShape
    hardware: tuple[Hardware, ...]
    question: Question
    split: Split
    rows: tuple[Row, ...]

    @property
    def verdict(self) -> Verdict:
        return self.split.verdict

    @property
    def tier(self) -> Tier:
        return self.rows[0].prediction.tier


def memory_of(shape: ModelShape, hardware: Sequence[Hardware], question: Question) -> Split:
    """Whether it fits, and where its layers go."""
    rooms = [each.available_bytes for each in hardware]
    return split_verdict(shape, rooms, context=question.context, kv_type=question.kv_type)


def estimate(shape: ModelShape, hardware: tuple[Hardware, ...], question: Question) -> Estimate:
    """All that is asked."""
    split = memory_of(shape, hardware, question)
    rows = tuple(
        _row(shape, hardware, split, question, depth, threads)
        for threads in question.threads
        for depth in _depths(shape, question)
    )
    return Estimate(shape, hardware, question, split, rows)


def _row(
    shape: ModelShape,
    hardware: Sequence[Hardware],
    split: Split,
    question: Question,
    depth: int,
    threads: int | None,
) -> Row:
    holders = [pair for pair in zip(hardware, split.layers, strict=True) if pair[1]] or [(hardware[0], 0)]
    placements = [Placement(each.rates(threads, shape), layers) for each, layers in holders]
    conditions = Conditions(depth, question.prompt_tokens, question.kv_type)
    prediction = predict_split(shape, placements, conditions)
    used = prediction.basis.threads
    return Row(depth, (threads or used) if used else None, prediction)


def _depths(shape: ModelShape, question: Question) -> tuple[int, ...]:
    longest = min(question.context or MAX_TOKENS, shape.context_length or MAX_TOKENS)
    if question.depths is None:
        return tuple(depth for depth in USUAL_DEPTHS if depth < longest)
    for depth in question.depths:
        if depth >= longest:
            raise UsageError(f"A depth of {depth:,} is beyond the context of {longest:,} tokens.")
    return question.depths
