"""Simulations of a few requests, for tests: steps of 10 ms unless a test says otherwise."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from router.simcloud.additions import NONE, Additions, equip
from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.loop import Loop
from router.simcloud.metrics import Recorder, Summary
from router.simcloud.request import Completed, Job, Rejected, Request
from router.simcloud.scheduler import Scheduler
from router.simcloud.step_cost import LinearCost, StepCost
from router.simcloud.swap import Swap

TEN_MS = LinearCost(0.010)


def job(
    number: int,
    arrived_s: float,
    prompt: int,
    output: int,
    *,
    bound: int | None = None,
    priority: int = 0,
    predicted: float | None = None,
    prefix: tuple[int, ...] = (),
) -> Job:
    request = Request(number, arrived_s, prompt, bound or output, predicted, priority, prefix)
    return Job(request, output)


@dataclass(frozen=True, slots=True)
class Outcome:
    completed: dict[int, Completed]
    rejected: dict[int, Rejected]
    summary: Summary

    def first_ms(self, number: int) -> int:
        return round(1000 * self.completed[number].first_token_s)

    def end_ms(self, number: int) -> int:
        return round(1000 * self.completed[number].finished_s)


def serve(
    jobs: Iterable[Job],
    scheduler: Scheduler,
    *,
    cost: StepCost = TEN_MS,
    blocks: int = 1001,
    block_tokens: int = 16,
    leaps: bool = True,
    swap: Swap | None = None,
    sharing: bool = True,
    additions: Additions = NONE,
    draft: StepCost | None = None,
) -> Outcome:
    """Runs until all is done, and checks that every block was given back."""
    completed: dict[int, Completed] = {}
    rejected: dict[int, Rejected] = {}

    def each(outcome: Completed | Rejected) -> None:
        kept = completed if isinstance(outcome, Completed) else rejected
        assert outcome.request.id not in kept
        kept[outcome.request.id] = outcome  # type: ignore[assignment]  # of the kind just looked at

    kv = KvPool(blocks, block_tokens, sharing)
    recorder = Recorder(kv.capacity, each=each)
    added = equip(additions, cost, draft, block_tokens)
    engine = Engine(
        scheduler,
        added.cost,
        kv,
        recorder,
        leaps=leaps,
        swap=swap,
        lag_s=added.lag_s,
        decoding=added.decoding,
    )
    Loop([engine], jobs).run()
    assert kv.free == kv.capacity
    assert not engine.busy
    return Outcome(completed, rejected, recorder.summary())
