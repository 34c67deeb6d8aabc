"""Who is first in the queue: keys by which it is sorted, smallest first; None is arrival.

Owns the keys and predictions of lengths. An oracle's prediction is made where jobs are made
(``oracle``): no scheduler can look a true length up.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from router.simcloud.request import Job
from router.simcloud.state import OrderKey, Sequence

Predictor = Callable[[Job], float]


def shortest_first(sequence: Sequence) -> tuple[float, ...]:
    """By the predicted length of the answer; without one by the bound."""
    request = sequence.request
    length = request.max_tokens if request.predicted_tokens is None else request.predicted_tokens
    return (length, request.arrived_s, request.id)


def by_priority(sequence: Sequence) -> tuple[float, ...]:
    request = sequence.request
    return (request.priority, request.arrived_s, request.id)


ORDERS: dict[str, OrderKey | None] = {"fcfs": None, "sjf": shortest_first, "priority": by_priority}


def oracle(job: Job) -> float:
    return float(job.length)


def noisy(spread: float, seed: int) -> Predictor:
    """Off by a factor whose logarithm is normal with ``spread``, the same for a request each time."""

    def predict(job: Job) -> float:
        draw = random.Random(seed * 1_000_003 + job.request.id).gauss(0.0, spread)
        return job.length * math.exp(draw)

    return predict


def predicted(jobs: Iterable[Job], predictor: Predictor) -> Iterator[Job]:
    """The same jobs, with predictions on their requests."""
    for job in jobs:
        yield replace(job, request=replace(job.request, predicted_tokens=predictor(job)))
