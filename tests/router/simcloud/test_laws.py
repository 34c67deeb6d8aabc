"""What holds for any workload, policy and cost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.simcloud.additions import Additions
from router.simcloud.admission import FuturePeak, Greedy, PastFuture, up_to_bound
from router.simcloud.dynamic.rule import BatchRule
from router.simcloud.gpu import find_gpu
from router.simcloud.host import HostedCost, HostWork, masks
from router.simcloud.llm import find_llm
from router.simcloud.ordering import by_priority, shortest_first
from router.simcloud.request import Job
from router.simcloud.roofline import Roofline
from router.simcloud.scheduler import Scheduler
from router.simcloud.schedulers.orca import Orca
from router.simcloud.schedulers.prefill_first import PrefillFirst
from router.simcloud.schedulers.request_level import RequestLevel
from router.simcloud.schedulers.static import Static
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.speculation import Speculation
from router.simcloud.step_cost import LinearCost, StepCost
from tests.router.simcloud.serving import Outcome, job, serve

BLOCKS = 40  # 39 blocks of 16: with the jobs below, often too few
FEW = settings(max_examples=25, deadline=None)


@st.composite
def workloads(draw: st.DrawFn) -> list[Job]:
    """Up to 25 requests that each fit the cache alone; some come at once."""
    at_s = 0.0
    jobs = []
    for number in range(draw(st.integers(1, 25))):
        at_s += draw(st.one_of(st.just(0.0), st.floats(0.0, 0.4)))
        prompt, output = draw(st.integers(1, 300)), draw(st.integers(1, 150))
        bound = output + draw(st.integers(0, 100))
        jobs.append(
            job(number, at_s, prompt, output, bound=bound, priority=draw(st.integers(0, 2)), predicted=output)
        )
    return jobs


SCHEDULERS: dict[str, Scheduler] = {
    "static": Static(4),
    "triton": RequestLevel(BatchRule(4, (2,), 0.05)),
    "orca": Orca(6),
    "vllm": Vllm(64, 8, asynchronous=False),
    "vllm-async": Vllm(64, 8),
    "vllm-chunks": Vllm(64, 8, whole_prompt_fits=False),
    "vllm-sjf": Vllm(64, 8, order=shortest_first),
    "vllm-priority": Vllm(64, 8, order=by_priority, victim=by_priority, overtakes=True),
    "vllm-old": PrefillFirst(300, 8, Greedy()),
    "future-peak": PrefillFirst(300, 8, FuturePeak(up_to_bound)),
    "past-future": PrefillFirst(300, 8, FuturePeak(PastFuture(3))),
}
COSTS: dict[str, StepCost] = {
    "linear": LinearCost(0.005, 1e-4, 1e-6),
    "roofline": Roofline(find_llm("llama-3-8b"), find_gpu("a100")),
    "beside the host": HostedCost(LinearCost(0.005, 1e-4, 1e-6), HostWork(0.0012, 1e-5)),
}
ADDITIONS = {
    "pipeline": Additions(host=HostWork(0.0012, 1e-5)),
    "serial": Additions(host=HostWork(0.0012, 1e-5, overlapped=False)),
    "masks": Additions(masks=masks(0.0008)),
    "speculation": Additions(speculation=Speculation(3, 0.6)),
    "all": Additions(HostWork(0.0012), masks(0.0008), Speculation(2, 0.6)),
}
every_scheduler = pytest.mark.parametrize("name", SCHEDULERS)


def trace(outcome: Outcome) -> list[tuple[float, ...]]:
    return [
        (number, done.admitted_s, done.first_token_s, done.finished_s, done.preemptions, done.cached_tokens)
        for number, done in sorted(outcome.completed.items())
    ]


@every_scheduler
@given(jobs=workloads(), cost=st.sampled_from(sorted(COSTS)))
@FEW
def test_leaps_change_nothing(name: str, jobs: list[Job], cost: str) -> None:
    leaping = serve(jobs, SCHEDULERS[name], cost=COSTS[cost], blocks=BLOCKS)
    stepping = serve(jobs, SCHEDULERS[name], cost=COSTS[cost], blocks=BLOCKS, leaps=False)
    for leapt, stepped in zip(trace(leaping), trace(stepping), strict=True):
        assert leapt == pytest.approx(stepped, abs=1e-9)
    assert leaping.summary.steps == stepping.summary.steps
    assert leaping.summary.utilisation == pytest.approx(stepping.summary.utilisation)
    assert leaping.summary.itl_s.mean == pytest.approx(stepping.summary.itl_s.mean)


@every_scheduler
@given(jobs=workloads())
@FEW
def test_every_request_ends_once_in_order_of_its_times(name: str, jobs: list[Job]) -> None:
    """serve checks that blocks are conserved and that none ends twice."""
    done = serve(jobs, SCHEDULERS[name], cost=COSTS["linear"], blocks=BLOCKS)
    assert len(done.completed) + len(done.rejected) == len(jobs)
    assert not done.rejected
    for each in jobs:
        ended = done.completed[each.request.id]
        assert each.request.arrived_s <= ended.admitted_s <= ended.first_token_s <= ended.finished_s
        assert ended.output_tokens == each.output_tokens
    assert done.summary.output_tokens == sum(each.length for each in jobs)
    assert 0 < done.summary.kv_peak <= 1
    assert 0 < done.summary.utilisation <= 1 + 1e-9


@pytest.mark.parametrize("added", ADDITIONS)
@pytest.mark.parametrize("name", ["orca", "vllm", "vllm-async", "vllm-priority", "vllm-old", "past-future"])
@given(jobs=workloads())
@settings(max_examples=12, deadline=None)
def test_additions_keep_the_laws(name: str, added: str, jobs: list[Job]) -> None:
    """Leaps change nothing, each ends once in order of its times, and no answer is longer or shorter."""
    outcomes = [
        serve(
            jobs,
            SCHEDULERS[name],
            cost=COSTS["linear"],
            blocks=BLOCKS,
            leaps=leaps,
            additions=ADDITIONS[added],
        )
        for leaps in (True, False)
    ]
    for leapt, stepped in zip(*map(trace, outcomes), strict=True):
        assert leapt == pytest.approx(stepped, abs=1e-9)
    done = outcomes[0]
    assert len(done.completed) == len(jobs)
    assert done.summary.output_tokens == sum(each.length for each in jobs)
    for each in done.completed.values():
        assert each.request.arrived_s <= each.admitted_s <= each.first_token_s <= each.finished_s


@every_scheduler
@given(jobs=workloads())
@settings(max_examples=10, deadline=None)
def test_the_same_again(name: str, jobs: list[Job]) -> None:
    first = serve(jobs, SCHEDULERS[name], blocks=BLOCKS)
    second = serve(jobs, SCHEDULERS[name], blocks=BLOCKS)
    assert repr(trace(first)) == repr(trace(second))
    assert first.summary == second.summary


@pytest.mark.parametrize("name", ["orca", "vllm", "vllm-async", "vllm-old", "future-peak"])
@given(jobs=workloads())
@FEW
def test_first_come_first_admitted(name: str, jobs: list[Job]) -> None:
    done = serve(jobs, SCHEDULERS[name], blocks=BLOCKS)
    admitted = [done.completed[number].admitted_s for number in range(len(jobs))]
    assert admitted == sorted(admitted)


@pytest.mark.parametrize("name", ["orca", "future-peak"])
@given(jobs=workloads())
@FEW
def test_who_counts_on_the_bound_never_preempts(name: str, jobs: list[Job]) -> None:
    assert serve(jobs, SCHEDULERS[name], blocks=BLOCKS).summary.preemptions == 0


@given(jobs=workloads())
@FEW
def test_littles_law(jobs: list[Job]) -> None:
    """The mean queue is what the waits say, counted by another way: the area under the queue's length."""
    done = serve(jobs, SCHEDULERS["vllm"], blocks=BLOCKS)
    changes = [(each.request.arrived_s, 1) for each in done.completed.values()]
    changes += [(each.admitted_s, -1) for each in done.completed.values()]
    area, length, last_s = 0.0, 0, 0.0
    for at_s, change in sorted(changes):
        area += length * (at_s - last_s)
        length, last_s = length + change, at_s
    assert done.summary.mean_queue * done.summary.makespan_s == pytest.approx(area, abs=1e-6)


def test_one_at_a_time_with_fixed_work_is_an_m_d_1_queue() -> None:
    import random

    draw = random.Random(7)
    at_s, jobs = 0.0, []
    for number in range(10_000):
        at_s += draw.expovariate(1 / 0.02)
        jobs.append(job(number, at_s, 16, 1))
    waits = serve(jobs, Vllm(max_sequences=1, asynchronous=False)).summary.queue_s.mean
    load = 0.010 / 0.02
    assert waits is not None
    assert math.isclose(waits, load * 0.010 / (2 * (1 - load)), rel_tol=0.06)
