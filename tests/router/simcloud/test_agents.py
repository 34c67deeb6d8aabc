"""Tasks of dependent calls. Steps take 10 ms and a token of a prompt 1 ms, where a test says so."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.errors import InvalidSimulation
from router.simcloud.agents import AgentLoad, Call, Task, TaskDone, chain, fan_out, jobs_of, names_of
from router.simcloud.balancing import PrefixAware, RoundRobin
from router.simcloud.cluster import Cluster
from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.metrics import Recorder
from router.simcloud.ordering import by_priority
from router.simcloud.request import Completed, Rejected
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.step_cost import LinearCost, StepCost
from tests.router.simcloud.serving import TEN_MS

SYNC = Vllm(asynchronous=False)
PER_TOKEN = LinearCost(0.010, seconds_per_token=0.001)


class Run:
    def __init__(
        self,
        tasks: list[Task],
        *,
        cost: StepCost = TEN_MS,
        scheduler: Vllm = SYNC,
        sharing: bool = True,
        replicas: int = 1,
        by_task: bool = False,
        blocks: int = 200,
    ) -> None:
        self.done: dict[int, Completed] = {}
        self.tasks: dict[int, TaskDone] = {}
        self.engines = [
            Engine(
                scheduler,
                cost,
                KvPool(blocks, sharing=sharing),
                Recorder(199, each=self._call),
                replica=place,
            )
            for place in range(replicas)
        ]
        self.load = AgentLoad(tasks, by_task, self._task)
        balancer = PrefixAware() if sharing else RoundRobin()
        self.load.over(self.engines, Cluster(self.engines, balancer).route).run(self._check)
        assert not self.load.open_tasks
        for engine in self.engines:
            assert engine.state.kv.free == engine.state.kv.capacity

    def _call(self, outcome: Completed | Rejected) -> None:
        assert isinstance(outcome, Completed)
        assert outcome.request.id not in self.done
        self.done[outcome.request.id] = outcome

    def _task(self, done: TaskDone) -> None:
        self.tasks[done.number] = done

    def _check(self, arrived: int, now_s: float) -> None:
        inside = sum(len(engine.state.waiting) + len(engine.state.running) for engine in self.engines)
        assert arrived == len(self.done) + inside

    def end_ms(self, number: int) -> int:
        return round(1000 * self.done[number].finished_s)


def test_a_chain_by_hand() -> None:
    """20 + 3 tokens, then those and 9: 32. A pause of 5 ms between. 3 steps, then 2."""
    run = Run([Task(0, 1.0, (Call(20, 3), Call(9, 2, (0,), 0.005)))])
    assert (run.end_ms(0), run.end_ms(1)) == (1030, 1055)
    assert run.done[1].request.prompt_tokens == 32
    assert run.done[1].cached_tokens == 16  # one full block of 22 that were computed
    assert run.tasks[0].seconds == pytest.approx(0.055)


def test_an_answer_is_found_again_and_saves_its_computation() -> None:
    """32 + 33 tokens: 64 of them are computed, 4 blocks; the next prompt of 75 computes 11."""
    task = Task(0, 0.0, (Call(32, 33), Call(10, 1, (0,))))
    assert Run([task], cost=PER_TOKEN).end_ms(1) == 42 + 32 * 11 + 10 + 11
    assert Run([task], cost=PER_TOKEN, sharing=False).end_ms(1) == 42 + 32 * 11 + 10 + 75


def test_a_fan_out_waits_for_its_last_part() -> None:
    """A plan of 1 step, parts of 2 and 5 steps beside each other, and one that reads 16 + 1 + 18 + 21 + 4."""
    calls = (Call(16, 1), Call(16, 2, (0,)), Call(16, 5, (0,)), Call(4, 1, (1, 2)))
    run = Run([Task(0, 0.0, calls)])
    assert [run.end_ms(number) for number in range(4)] == [10, 30, 60, 70]
    assert run.done[3].request.prompt_tokens == 60


def test_earlier_tasks_first_ends_a_task_sooner() -> None:
    """One at a time. Task 0's second call comes at 20 ms, after task 1 (there since 5 ms)."""
    tasks = [
        Task(0, 0.0, (Call(16, 2), Call(16, 2, (0,)))),
        Task(1, 0.005, (Call(16, 4),)),
        Task(2, 0.006, (Call(16, 4),)),
    ]
    calls = Run(tasks, scheduler=Vllm(max_sequences=1, asynchronous=False))
    first = Vllm(max_sequences=1, asynchronous=False, order=by_priority)
    by_task = Run(tasks, scheduler=first, by_task=True)
    assert [round(1000 * calls.tasks[number].finished_s) for number in range(3)] == [120, 60, 100]
    assert [round(1000 * by_task.tasks[number].finished_s) for number in range(3)] == [40, 80, 120]


def test_names_are_equal_exactly_where_tokens_are() -> None:
    assert names_of([(1, 40)]) == names_of([(1, 36), (2, 9)])[:2]
    assert names_of([(1, 20), (2, 30)])[1] != names_of([(1, 20), (3, 30)])[1]
    assert names_of([(1, 15)]) == ()
    task = Task(3, 0.0, (Call(40, 8), Call(8, 1, (0,))))
    first, second = jobs_of(task, 0, by_task=False)
    assert second.request.prefix[: len(first.transcript)] == first.transcript


def test_a_call_cannot_need_a_later_one() -> None:
    with pytest.raises(InvalidSimulation):
        Task(0, 0.0, (Call(1, 1, (1,)), Call(1, 1)))


def test_a_task_that_can_never_fit_is_dropped_whole() -> None:
    run = Run([Task(0, 0.0, (Call(16, 1), Call(4000, 1, (0,)))), Task(1, 0.0, (Call(16, 1),))])
    assert (run.load.dropped, run.load.done) == (1, 1)


@st.composite
def agents(draw: st.DrawFn) -> list[Task]:
    source = random.Random(draw(st.integers(0, 10_000)))
    at_s, tasks = 0.0, []
    for number in range(draw(st.integers(1, 6))):
        at_s += draw(st.floats(0.0, 0.3))
        kind = chain if draw(st.booleans()) else fan_out
        size = draw(st.integers(1, 5))
        calls = kind(size, lambda d: d.randint(1, 60), lambda d: d.randint(1, 30), source, 0.01)
        tasks.append(Task(number, at_s, calls, shared_tokens=draw(st.sampled_from([0, 40]))))
    return tasks


@given(tasks=agents(), replicas=st.integers(1, 3), sharing=st.booleans(), ahead=st.booleans())
@settings(max_examples=50, deadline=None)
def test_laws(tasks: list[Task], replicas: int, sharing: bool, ahead: bool) -> None:
    def run() -> Run:
        scheduler = Vllm(64, 6, asynchronous=ahead)
        return Run(tasks, scheduler=scheduler, sharing=sharing, replicas=replicas, cost=PER_TOKEN, blocks=70)

    found = run()
    assert set(found.tasks) == {task.number for task in tasks}
    number = 0
    for task in sorted(tasks, key=lambda task: task.arrived_s):
        ends = []
        for call in task.calls:
            done = found.done[number]
            number += 1
            started_s = max([ends[parent] for parent in call.parents], default=task.arrived_s) + call.pause_s
            assert done.request.arrived_s == pytest.approx(started_s)
            assert started_s - 1e-9 <= done.admitted_s <= done.first_token_s <= done.finished_s
            ends.append(done.finished_s)
        assert found.tasks[task.number].finished_s == pytest.approx(max(ends))
    assert len(found.done) == number
    assert repr(run().done) == repr(found.done)
