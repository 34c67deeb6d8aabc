"""Models that share a GPU, worked out by hand: a step 10 ms, weights 1 byte per ms over the link."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.errors import InvalidSimulation
from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.metrics import Recorder
from router.simcloud.multiplex import Multiplexer, Tenant, Turns, half_precision_bytes
from router.simcloud.request import Completed, Job, Rejected
from router.simcloud.schedulers.vllm import Vllm
from tests.router.simcloud.serving import TEN_MS, job
from tests.router.simcloud.test_laws import workloads


class Run:
    def __init__(self, jobs: list[tuple[str, Job]], room: float, turns: Turns | None = None) -> None:
        self.done: dict[int, Completed] = {}
        self.tenants = [self._tenant("a", 100.0), self._tenant("b", 50.0)]
        self.gpu = Multiplexer(self.tenants, room, 1000.0, turns)
        self.gpu.run(jobs)
        for tenant in self.tenants:
            assert tenant.engine.state.kv.free == tenant.engine.state.kv.capacity
        spent = self.gpu.spent
        assert spent.busy_s + spent.swap_s + spent.idle_s == pytest.approx(self.gpu.now_s)

    def _tenant(self, name: str, weight: float) -> Tenant:
        def each(outcome: Completed | Rejected) -> None:
            assert isinstance(outcome, Completed)
            self.done[outcome.request.id] = outcome

        engine = Engine(Vllm(64, 8, asynchronous=False), TEN_MS, KvPool(60), Recorder(59, each=each))
        return Tenant(name, engine, weight)

    def end_ms(self, number: int) -> int:
        return round(1000 * self.done[number].finished_s)


def test_13b_and_7b_take_40_gb() -> None:
    weights = [half_precision_bytes(13e9), half_precision_bytes(7e9)]
    assert weights == [26e9, 14e9]
    assert sum(weights) == 40e9


def test_two_that_fit_take_turns_by_steps() -> None:
    """a comes in by 100 ms. b waits for its patience (1 s), or until a has nothing to do: 120 ms; then its
    weights, and from 170 ms on the steps of 0 (there again at 200 ms) and 1 alternate."""
    jobs = [("a", job(0, 0.0, 16, 2)), ("b", job(1, 0.0, 16, 6)), ("a", job(2, 0.201, 16, 2))]
    run = Run(jobs, room=150.0)
    assert run.end_ms(0) == 120
    assert run.end_ms(1) == 170 + 10 * 6 + 10 * 2
    assert run.end_ms(2) == 210 + 10 * 3
    assert [tenant.swaps for tenant in run.tenants] == [1, 1]


def test_two_that_do_not_fit_push_each_other_out() -> None:
    jobs = [("a", job(0, 0.0, 16, 2)), ("b", job(1, 0.0, 16, 6)), ("a", job(2, 0.201, 16, 2))]
    run = Run(jobs, room=149.0)
    assert run.end_ms(1) == 170 + 60
    assert run.end_ms(2) == 230 + 100 + 20
    assert [tenant.swaps for tenant in run.tenants] == [2, 1]
    assert run.gpu.spent.swap_s == pytest.approx(0.250)
    assert run.gpu.spent.idle_s == pytest.approx(0.0)


def test_impatience_brings_weights_sooner_and_more_often() -> None:
    jobs = [("a", job(0, 0.0, 16, 50)), ("b", job(1, 0.0, 16, 2))]
    assert Run(jobs, 100.0, Turns(patience_s=10.0)).end_ms(1) == 100 + 500 + 50 + 20
    soon = Run(jobs, 100.0, Turns(patience_s=0.2))
    assert soon.end_ms(1) == 300 + 50 + 20  # a is left in peace from 100 to 300 ms
    assert soon.end_ms(0) == 370 + 100 + 300


def test_without_patience_a_model_that_came_in_runs_before_it_leaves() -> None:
    jobs = [("a", job(0, 0.0, 16, 2)), ("b", job(1, 0.0, 16, 2))]
    run = Run(jobs, 100.0, Turns(patience_s=0.0))
    assert run.end_ms(0) == 100 + 10 + 50 + 10 + 100 + 10
    assert run.end_ms(1) == 100 + 10 + 50 + 10 + 100 + 10 + 50 + 10


def test_idle_time_is_counted() -> None:
    run = Run([("a", job(0, 1.0, 16, 1)), ("a", job(1, 2.0, 16, 1))], room=150.0)
    assert run.gpu.spent.idle_s == pytest.approx(1.0 + (2.0 - 1.110))


def test_a_model_larger_than_the_room() -> None:
    with pytest.raises(InvalidSimulation, match="does not fit"):
        Run([], room=99.0)


@given(
    jobs=workloads(),
    room=st.sampled_from([100.0, 150.0]),
    patience=st.floats(0.0, 0.5),
    quantum=st.sampled_from([0.0, 0.05]),
)
@settings(max_examples=40, deadline=None)
def test_laws(jobs: list[Job], room: float, patience: float, quantum: float) -> None:
    """All end; blocks are conserved and the GPU time adds up (Run looks); the same again is the same."""
    named = [("ab"[each.request.prompt_tokens % 2], each) for each in jobs]
    run = Run(named, room, Turns(quantum, patience))
    assert set(run.done) == {each.request.id for each in jobs}
    for done in run.done.values():
        assert done.request.arrived_s <= done.admitted_s <= done.first_token_s <= done.finished_s
    assert repr(Run(named, room, Turns(quantum, patience)).done) == repr(run.done)
    if room == 150.0:
        assert all(tenant.swaps <= 1 for tenant in run.tenants)
