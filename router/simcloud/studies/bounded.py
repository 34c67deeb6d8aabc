"""The requests that admission and block-size serve: bounded far above what they need.

Owns their lengths and how they are described.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from router.simcloud.request import Job
from router.simcloud.workload import lognormal, open_loop, poisson

PROMPT_MEDIAN, ANSWER_MEDIAN, SPREAD, LONGEST, BOUND = 200, 200, 0.7, 1024, 1024


def requests(rate: float, count: int, seed: int) -> Iterator[Job]:
    draw = random.Random(seed)
    lengths = lognormal(PROMPT_MEDIAN, ANSWER_MEDIAN, SPREAD, LONGEST)
    return open_loop(poisson(rate, draw), lengths, count, draw, BOUND)


def words(count: int) -> str:
    return (
        f"Workload: {count} requests, Poisson; prompts and answers lognormal around {PROMPT_MEDIAN} and"
        f" {ANSWER_MEDIAN} tokens (spread {SPREAD}), all bounded by {BOUND}."
    )
