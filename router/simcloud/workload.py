"""Made-up requests: when they arrive, and how long prompts and answers are.

Owns arrival processes and length distributions, each a function of a seeded random source, so
that the same seed gives the same requests. Reading published lists is ``trace_files``'.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from router.errors import InvalidSimulation
from router.simcloud.engine import Engine
from router.simcloud.loop import Loop
from router.simcloud.request import Job, Request

Lengths = Callable[[random.Random], tuple[int, int]]
"""Draws (prompt tokens, output tokens)."""


def poisson(per_s: float, draw: random.Random) -> Iterator[float]:
    """Arrivals without memory, ``per_s`` on average."""
    return bursty(per_s, 1.0, draw)


def bursty(per_s: float, variation: float, draw: random.Random) -> Iterator[float]:
    """Gamma-distributed gaps with that coefficient of variation; 1 is Poisson, larger comes in bursts."""
    if not (0 < per_s < math.inf and 0 < variation < math.inf):
        raise InvalidSimulation("Arrivals need a positive rate and a positive variation.")
    shape = 1 / variation**2
    at_s = 0.0
    while True:
        at_s += draw.gammavariate(shape, 1 / (per_s * shape))
        yield at_s


def fixed(prompt_tokens: int, output_tokens: int) -> Lengths:
    return lambda draw: (prompt_tokens, output_tokens)


def uniform(prompt: tuple[int, int], output: tuple[int, int]) -> Lengths:
    return lambda draw: (draw.randint(*prompt), draw.randint(*output))


def lognormal(prompt_median: float, output_median: float, spread: float, longest: int) -> Lengths:
    """Medians, and the standard deviation of the logarithm; cut at ``longest``."""

    def lengths(draw: random.Random) -> tuple[int, int]:
        drawn = (median * math.exp(draw.gauss(0.0, spread)) for median in (prompt_median, output_median))
        prompt, output = (max(1, min(longest, round(each))) for each in drawn)
        return prompt, output

    return lengths


def open_loop(
    arrivals: Iterator[float], lengths: Lengths, count: int, draw: random.Random, max_tokens: int = 0
) -> Iterator[Job]:
    """``count`` jobs that arrive whatever becomes of those before."""
    for number, at_s in enumerate(islice(arrivals, count)):
        yield _job(number, at_s, lengths(draw), max_tokens)


@dataclass(slots=True)
class ClosedLoop:
    """``clients`` that each ask, wait for the answer, think, and ask again, until there are no more jobs.

    When jobs arrive by themselves does not matter here.
    """

    clients: int
    think_s: float
    jobs: Iterator[Job]
    _engines: tuple[Engine, ...] = ()

    def __post_init__(self) -> None:
        if self.clients < 1 or not 0 <= self.think_s < math.inf:
            raise InvalidSimulation("There must be at least one client, that thinks for 0 seconds or more.")

    def over(self, loop: Loop, engines: Iterable[Engine]) -> Loop:
        """Joins a dependent loop without jobs of its own; every engine tells what ends."""
        self._engines = tuple(engines)
        for engine in self._engines:
            engine.tell(lambda done: self._ask(loop, done.finished_s + self.think_s))
        for _ in range(self.clients):
            self._ask(loop, 0.0)
        return loop

    def _ask(self, loop: Loop, at_s: float) -> None:
        job = next(self.jobs, None)
        if job is not None:
            asked = job.arriving(at_s)
            loop.at(at_s, lambda: self._send(loop, asked))

    def _send(self, loop: Loop, job: Job) -> None:
        loop.submit(job)
        if not any(engine.fits(job.request) for engine in self._engines):  # refused at once: ask the next
            self._ask(loop, job.request.arrived_s + self.think_s)


def _job(number: int, at_s: float, lengths: tuple[int, int], max_tokens: int) -> Job:
    prompt, output = lengths
    return Job(Request(number, at_s, prompt, max(max_tokens, output)), output)
