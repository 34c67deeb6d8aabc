"""Free answers that break the format are asked again, until one is valid or patience ends.

Owns chances, tries and what a caller gets in the end; ``rate`` 0 is constrained generation, where every
answer is valid. A try again is a request of its own that arrives when the last try ended; its
prompt is known to the engine's prefix cache. Does not know how an engine works.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace

from router.errors import InvalidSimulation
from router.simcloud.engine import Engine
from router.simcloud.loop import Loop
from router.simcloud.metrics import Latency, Summary
from router.simcloud.quantiles import Quantiles
from router.simcloud.request import Completed, Job, Request


@dataclass(frozen=True, slots=True)
class ValidSummary:
    """``latency_s`` is from the first try's arrival to the end of the valid one."""

    valid: int
    given_up: int
    tries_per_answer: float
    valid_per_s: float
    valid_per_usd: float | None
    latency_s: Latency

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(slots=True)
class _Question:
    job: Job
    draw: random.Random
    tries: int = 1


@dataclass(slots=True)
class Retries:
    """Each answer is invalid with chance ``rate``, for ``most_tries`` tries at most."""

    rate: float
    most_tries: int = 10
    seed: int = 0
    valid: int = 0
    given_up: int = 0
    tries: int = 0
    latency: Quantiles = field(default_factory=Quantiles)
    _open: dict[int, _Question] = field(default_factory=dict)
    _again: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1 or self.most_tries < 1:
            raise InvalidSimulation("Answers are invalid with a chance from 0 to below 1, of at least 1 try.")

    def over(self, engine: Engine, jobs: Iterable[Job]) -> Loop:
        """The loop that serves the jobs, and asks again what came out invalid."""
        loop = Loop([engine], self._known(jobs), dependent=True)
        engine.on_done = lambda done: self._ended(loop, done)
        return loop

    def summary(self, served: Summary, usd_per_hour: float | None) -> ValidSummary:
        seconds = served.makespan_s
        p50, p90, p99 = self.latency.at((0.5, 0.9, 0.99))
        dollars = None if usd_per_hour is None else usd_per_hour * seconds / 3600
        return ValidSummary(
            valid=self.valid,
            given_up=self.given_up,
            tries_per_answer=self.tries / max(1, self.valid + self.given_up),
            valid_per_s=self.valid / seconds if seconds else 0.0,
            valid_per_usd=self.valid / dollars if dollars else None,
            latency_s=Latency(self.latency.mean, p50, p90, p99),
        )

    def _known(self, jobs: Iterable[Job]) -> Iterator[Job]:
        for job in jobs:
            named = replace(job, request=_named(job)) if self.rate else job
            draw = random.Random(self.seed * 1_000_003 + job.request.id)
            self._open[job.request.id] = _Question(named, draw)
            yield named

    def _ended(self, loop: Loop, done: Completed) -> None:
        question = self._open.pop(done.request.id)
        self.tries += 1
        if question.draw.random() >= self.rate:
            self.valid += 1
            self.latency.add(done.finished_s - question.job.request.arrived_s)
        elif question.tries == self.most_tries:
            self.given_up += 1
        else:
            self._ask_again(loop, question, done.finished_s)

    def _ask_again(self, loop: Loop, question: _Question, at_s: float) -> None:
        self._again -= 1  # numbers below 0: no list of requests has them
        question.tries += 1
        self._open[self._again] = question
        request = replace(question.job.request, id=self._again, arrived_s=at_s)
        again = replace(question.job, request=request)
        loop.at(at_s, lambda: loop.submit(again))


def _named(job: Job) -> Request:
    """Its prompt's content gets a name, so that the next try finds it cached."""
    request = job.request
    if request.prefix:
        return request
    blocks = request.prompt_tokens // request.prefix_block_tokens
    return replace(request, prefix=(-1 - request.id, *[0] * (blocks - 1)) if blocks else ())
