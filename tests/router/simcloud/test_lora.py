"""Adapters worked out by hand: a step 10 ms, blocks of 16 tokens of one byte, 16 bytes come in per ms."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.llm import find_llm
from router.simcloud.loop import Loop
from router.simcloud.lora import Adapters, Lora, MixedBatches, adapter_bytes, with_adapters
from router.simcloud.metrics import Recorder
from router.simcloud.request import Completed, Job, Rejected
from router.simcloud.scheduler import Scheduler
from router.simcloud.schedulers.prefill_first import PrefillFirst
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.step_cost import LinearCost
from tests.router.simcloud.serving import TEN_MS, job
from tests.router.simcloud.test_laws import workloads

TWO_BLOCKS = Lora(32.0, max_loras=2, link_bytes_per_s=16_000.0)


class Run:
    def __init__(
        self,
        jobs: list[Job],
        names: str,
        lora: Lora = TWO_BLOCKS,
        blocks: int = 1001,
        scheduler: Scheduler | None = None,
        leaps: bool = True,
    ) -> None:
        self.done: dict[int, Completed] = {}

        def each(outcome: Completed | Rejected) -> None:
            assert isinstance(outcome, Completed)
            self.done[outcome.request.id] = outcome

        self.adapters = Adapters(lora, block_bytes=16.0)
        kv = KvPool(blocks)
        self.recorder = Recorder(kv.capacity, each=each)
        cost = MixedBatches(TEN_MS, self.adapters, read_s=0.001, mixed_s=0.002)
        engine = Engine(
            scheduler or Vllm(asynchronous=False),
            cost,
            kv,
            self.recorder,
            adapters=self.adapters,
            leaps=leaps,
        )
        Loop([engine], with_adapters(jobs, iter(names))).run()
        assert kv.free == kv.capacity
        assert not self.adapters.in_use

    def first_ms(self, number: int) -> int:
        return round(1000 * self.done[number].first_token_s)


def test_a_mixed_batch_pays_for_each_different_adapter() -> None:
    """Two come in (4 ms), then the step: 10 + 2 + 2 x 1 ms; a third of the first adapter adds nothing."""
    jobs = [job(number, 0.0, 16, 1) for number in range(3)]
    assert Run(jobs, "aba").first_ms(2) == 4 + 14
    assert Run(jobs, "aaa").first_ms(2) == 2 + 13
    assert Run(jobs, ["", "", ""]).first_ms(2) == 10  # type: ignore[arg-type]  # any iterable will do


def test_overlapped_an_adapter_comes_in_while_the_step_runs() -> None:
    jobs = [job(0, 0.0, 16, 1)]
    slow = Lora(32.0, 2, 16_000.0, overlapped=True)
    assert Run(jobs, "a", slow).first_ms(0) == 13
    assert Run(jobs, "a", Lora(320.0, 2, 16_000.0, overlapped=True)).first_ms(0) == 20


def test_one_too_many_lets_others_pass() -> None:
    """Two at most: c waits until a and b have ended, the second a does not wait for c."""
    jobs = [job(number, 0.0, 16, 3) for number in range(4)]
    run = Run(jobs, "abca")
    assert [run.first_ms(number) for number in (0, 1, 3)] == [18, 18, 18]
    assert run.first_ms(2) == 18 + 2 * 14 + 2 + 13


def test_an_adapter_nobody_uses_stays_until_its_blocks_are_taken() -> None:
    calm = [job(0, 0.0, 16, 1), job(1, 1.0, 16, 1)]
    assert (Run(calm, "aa").adapters.cold, Run(calm, "aa").adapters.warm) == (1, 1)
    busy = [job(0, 0.0, 16, 1), job(1, 0.5, 16 * 6, 1), job(2, 1.0, 16, 1)]
    assert Run(busy, "aba", blocks=12).adapters.warm == 1  # b and its prompt take 8 of 11
    assert Run(busy, "aba", blocks=10).adapters.cold == 3  # 8 of 9


def test_least_recently_used_goes_first() -> None:
    """9 blocks. a, b, a, then a request without an adapter takes 6, one of b's too; a is there."""
    at = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]
    jobs = [job(place, at_s, 16 if place != 3 else 16 * 6, 1) for place, at_s in enumerate(at)]
    run = Run(jobs, ["a", "b", "a", "", "a", "b"], blocks=10)  # type: ignore[arg-type]  # tuples of arrivals as the trace has them
    assert (run.adapters.cold, run.adapters.warm) == (3, 2)


def test_adapters_weigh_less_than_a_hundredth_of_their_model() -> None:
    llm = find_llm("llama-2-7b")
    assert adapter_bytes(llm, 8) == pytest.approx(40e6, rel=0.01)
    assert adapter_bytes(llm, 16) < 0.01 * llm.weight_bytes


SCHEDULERS: list[Scheduler] = [Vllm(64, 8, asynchronous=False), Vllm(64, 8), PrefillFirst(300, 8)]


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=["vllm", "vllm-async", "vllm-old"])
@given(jobs=workloads(), kinds=st.integers(1, 6), overlapped=st.booleans())
@settings(max_examples=25, deadline=None)
def test_laws(scheduler: Scheduler, jobs: list[Job], kinds: int, overlapped: bool) -> None:
    """All end, blocks are conserved (Run looks), leaps change nothing, the same again is the same."""
    lora = Lora(40.0, 2, 1e4, overlapped)
    names = "".join("abcdef"[number * 7 % kinds] for number in range(len(jobs)))
    run = Run(jobs, names, lora, blocks=44, scheduler=scheduler)
    assert set(run.done) == {each.request.id for each in jobs}
    assert run.adapters.cold >= len(set(names))
    again = Run(jobs, names, lora, blocks=44, scheduler=scheduler)
    stepped = Run(jobs, names, lora, blocks=44, scheduler=scheduler, leaps=False)
    assert repr(again.done) == repr(run.done)
    for number, done in run.done.items():
        assert done.request.arrived_s <= done.admitted_s <= done.first_token_s <= done.finished_s
        assert stepped.done[number].finished_s == pytest.approx(done.finished_s, abs=1e-9)


def test_a_linear_cost_is_wrapped_step_by_step() -> None:
    adapters = Adapters(TWO_BLOCKS, 16.0)
    cost = MixedBatches(LinearCost(0.010, 0.001), adapters, 0.001, 0.002)
    assert cost.decode_run(2, 10).first_s == pytest.approx(0.012)
    adapters.in_use["a"] = 1
    assert cost.decode_run(2, 10).first_s == pytest.approx(0.015)
