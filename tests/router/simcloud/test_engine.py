"""Steps, their order and their times: traces worked out by hand, and the same with and without leaps."""

from __future__ import annotations

import pytest

from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.loop import Loop
from router.simcloud.metrics import Recorder
from router.simcloud.request import Completed, Job, Rejected, Request
from router.simcloud.scheduler import Scheduler
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.step_cost import LinearCost, StepCost

TEN_MS = LinearCost(0.010)


def job(number: int, arrived_s: float, prompt: int, output: int) -> Job:
    return Job(Request(number, arrived_s, prompt, output), output)


def simulate(
    jobs: list[Job], scheduler: Scheduler, cost: StepCost = TEN_MS, blocks: int = 1001, leaps: bool = True
) -> dict[int, Completed | Rejected]:
    done: dict[int, Completed | Rejected] = {}

    def each(outcome: Completed | Rejected) -> None:
        done[outcome.request.id] = outcome

    kv = KvPool(blocks)
    recorder = Recorder(kv.capacity, each=each)
    engine = Engine(scheduler, cost, kv, recorder, leaps=leaps)
    Loop([engine], jobs).run()
    assert kv.free == kv.capacity
    assert not engine.busy
    return done


def completed(done: dict[int, Completed | Rejected], number: int) -> Completed:
    outcome = done[number]
    assert isinstance(outcome, Completed)
    return outcome


def test_one_request_alone() -> None:
    """The prompt's step emits the first token, each further one takes a step."""
    done = completed(simulate([job(0, 1.0, 20, 4)], Vllm(asynchronous=False)), 0)
    assert done.first_token_s == pytest.approx(1.010)
    assert done.finished_s == pytest.approx(1.040)
    assert done.tpot_s == pytest.approx(0.010)
    assert done.queued_s == 0.0


def test_an_arrival_waits_for_the_step_that_runs() -> None:
    done = simulate([job(0, 0.0, 20, 10), job(1, 0.015, 20, 2)], Vllm(asynchronous=False))
    assert completed(done, 1).admitted_s == pytest.approx(0.020)
    assert completed(done, 1).first_token_s == pytest.approx(0.030)


def test_planning_ahead_costs_an_arrival_one_step_more() -> None:
    done = simulate([job(0, 0.0, 20, 10), job(1, 0.015, 20, 2)], Vllm(asynchronous=True))
    assert completed(done, 1).admitted_s == pytest.approx(0.020)
    assert completed(done, 1).first_token_s == pytest.approx(0.040)


def test_a_request_larger_than_the_cache_is_rejected() -> None:
    done = simulate([job(0, 0.0, 100, 100), job(1, 0.0, 16, 2)], Vllm(), blocks=10)
    assert isinstance(done[0], Rejected)
    assert isinstance(done[1], Completed)
