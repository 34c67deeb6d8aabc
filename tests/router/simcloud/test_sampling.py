"""Several answers to one prompt, in blocks of 16 that are copied only when written while others read them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.loop import Loop
from router.simcloud.metrics import Recorder, Summary
from router.simcloud.request import Completed, Job, Rejected
from router.simcloud.scheduler import Scheduler
from router.simcloud.schedulers.prefill_first import PrefillFirst
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.state import Sequence
from router.simcloud.step_cost import LinearCost
from tests.router.simcloud.serving import TEN_MS, job
from tests.router.simcloud.test_laws import workloads


def several(each: Job, samples: int, *others: int) -> Job:
    return replace(each, request=replace(each.request, samples=samples), other_samples=others)


class Run:
    def __init__(
        self,
        jobs: list[Job],
        blocks: int = 100,
        scheduler: Scheduler | None = None,
        cost: LinearCost = TEN_MS,
        sharing: bool = True,
        leaps: bool = True,
    ) -> None:
        self.done: dict[int, Completed] = {}
        kv = KvPool(blocks, sharing=sharing)
        recorder = Recorder(kv.capacity, each=self._each)
        self.engine = Engine(scheduler or Vllm(asynchronous=False), cost, kv, recorder, leaps=leaps)
        Loop([self.engine], jobs).run()
        assert kv.free == kv.capacity
        self.summary: Summary = recorder.summary()

    def _each(self, outcome: Completed | Rejected) -> None:
        assert isinstance(outcome, Completed)
        assert outcome.request.id not in self.done
        self.done[outcome.request.id] = outcome

    def end_ms(self, number: int) -> int:
        return round(1000 * self.done[number].finished_s)


def test_a_block_is_copied_only_when_written_with_other_readers() -> None:
    """20 tokens: a full block and one with 4. Two of three readers copy it, the last writes into it."""
    kv = KvPool(11)
    parent, *children = (Sequence(job(number, 0.0, 20, 9).request, computed=20) for number in range(3))
    kv.grow(parent, 20)
    kv.fork(parent, children)
    assert kv.used == 2
    assert [kv.write(each) for each in (parent, *children)] == [True, True, False]
    assert kv.used == 1 + 3
    assert [kv.write(each) for each in (parent, *children)] == [False, False, False]
    for each in (parent, *children):
        kv.release(each, comes_back=False)
    assert kv.used == 0


def test_full_blocks_are_never_copied() -> None:
    kv = KvPool(11)
    parent, child = (Sequence(job(number, 0.0, 32, 9).request, computed=32) for number in range(2))
    kv.grow(parent, 32)
    kv.fork(parent, [child])
    assert not kv.write(parent)
    assert not kv.write(child)
    assert kv.used == 2


def test_three_answers_by_hand() -> None:
    """One prompt step, then answers of 2, 5 and 3 tokens; one request, which ends with the last."""
    run = Run([several(job(0, 0.0, 20, 5), 3, 2, 3)])
    assert run.end_ms(0) == 50
    assert (run.done[0].output_tokens, run.done[0].other_tokens) == (5, 5)
    assert run.summary.output_tokens == 10
    assert run.engine.families.copies == 2


def test_sharing_takes_fewer_blocks_than_as_many_requests() -> None:
    """Four answers of 16 to 160 tokens: 10 + 4 blocks; as requests of their own 44."""
    together = Run([several(job(0, 0.0, 160, 16), 4)])
    apart = Run([job(number, 0.0, 160, 16) for number in range(4)])
    assert together.summary.kv_peak * 99 == pytest.approx(14)
    assert apart.summary.kv_peak * 99 == pytest.approx(44)


def test_a_sample_without_room_for_its_copy_is_computed_again() -> None:
    """5 blocks: 2 of 3 shared ones are full, so three samples need 2 + 3, and two more as they grow."""
    run = Run([several(job(0, 0.0, 40, 9), 3)], blocks=5)
    assert run.summary.preemptions >= 1
    assert run.summary.output_tokens == 27


SCHEDULERS: list[Scheduler] = [Vllm(64, 8, asynchronous=False), Vllm(64, 8), PrefillFirst(300, 8)]


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=["vllm", "vllm-async", "vllm-old"])
@given(jobs=workloads(), most=st.integers(1, 5), sharing=st.booleans())
@settings(max_examples=30, deadline=None)
def test_laws(scheduler: Scheduler, jobs: list[Job], most: int, sharing: bool) -> None:
    """All samples end once, blocks are conserved, leaps change nothing, and again is the same."""
    asked = [
        several(each, 1 + each.request.id % most, *(1 + each.length * part // 4 for part in range(1, 4)))
        for each in jobs
    ]

    def run(leaps: bool = True) -> Run:
        return Run(asked, 40, scheduler, LinearCost(0.005, 1e-4, 1e-6), sharing, leaps)

    found, again, stepped = run(), run(), run(leaps=False)
    assert set(found.done) == {each.request.id for each in jobs}
    for each in asked:
        done = found.done[each.request.id]
        lengths = [each.length_of(sample) for sample in range(each.request.samples)]
        assert done.output_tokens + done.other_tokens == sum(lengths)
        assert each.request.arrived_s <= done.admitted_s <= done.first_token_s <= done.finished_s
        assert stepped.done[each.request.id].finished_s == pytest.approx(done.finished_s, abs=1e-9)
    assert repr(again.done) == repr(found.done)
