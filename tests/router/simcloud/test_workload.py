"""Made-up requests have the rate, the burstiness and the seed that were asked for."""

from __future__ import annotations

import random
import statistics
from itertools import islice, pairwise

import pytest

from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.loop import Loop
from router.simcloud.metrics import Recorder
from router.simcloud.request import Completed, Rejected
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.step_cost import LinearCost
from router.simcloud.workload import ClosedLoop, bursty, fixed, lognormal, open_loop, poisson


@pytest.mark.parametrize("variation", [0.5, 1.0, 3.0])
def test_arrivals(variation: float) -> None:
    times = list(islice(bursty(5.0, variation, random.Random(1)), 20_000))
    gaps = [after - before for before, after in pairwise(times)]
    assert statistics.mean(gaps) == pytest.approx(0.2, rel=0.1)
    assert statistics.stdev(gaps) / statistics.mean(gaps) == pytest.approx(variation, rel=0.1)


def test_the_same_seed_gives_the_same_requests() -> None:
    def requests() -> list[object]:
        draw = random.Random(3)
        return list(open_loop(poisson(2.0, draw), lognormal(200, 100, 1.0, 4000), 50, draw))

    assert requests() == requests()


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_closed_loop_keeps_its_clients_busy(replicas: int) -> None:
    """4 clients, one step of 10 ms an answer and 5 ms to think: each asks every 15 ms."""
    done: list[Completed] = []

    def each(outcome: Completed | Rejected) -> None:
        assert isinstance(outcome, Completed)
        done.append(outcome)

    recorder = Recorder(1000, each=each)
    scheduler, cost = Vllm(asynchronous=False), LinearCost(0.010)
    engines = [Engine(scheduler, cost, KvPool(1001), recorder) for _ in range(replicas)]
    draw = random.Random(1)
    clients = ClosedLoop(4, 0.005, open_loop(poisson(1.0, draw), fixed(16, 1), 40, draw))
    loop = Loop(engines, (), lambda job, found: found[job.request.id % len(found)], dependent=True)
    clients.over(loop, engines).run()
    assert len(done) == 40
    assert max(each.finished_s for each in done) == pytest.approx(10 * 0.015 - 0.005)
    assert all(each.e2e_s == pytest.approx(0.010) for each in done)
