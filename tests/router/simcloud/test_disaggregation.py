"""Prefill and decode apart, worked out by hand: a step 10 ms, a token's KV one byte, 1000 bytes a second."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.simcloud.balancing import LeastLoaded
from router.simcloud.cluster import Cluster
from router.simcloud.disaggregation import Disaggregated, Transfer
from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.link import SharedLink
from router.simcloud.metrics import Recorder
from router.simcloud.request import Completed, Job, Rejected
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.step_cost import LinearCost, StepCost
from tests.router.simcloud.serving import TEN_MS, job, serve
from tests.router.simcloud.test_laws import workloads

SYNC = Vllm(asynchronous=False)


class Run:
    """Runs to the end, and checks at every event that no request is lost or counted twice."""

    def __init__(
        self,
        jobs: list[Job],
        *,
        pools: tuple[int, int] = (1, 1),
        blocks: int = 1001,
        bytes_per_s: float = 1000.0,
        latency_s: float = 0.0,
        scheduler: Vllm = SYNC,
        cost: StepCost = TEN_MS,
        leaps: bool = True,
    ) -> None:
        self.done: dict[int, Completed] = {}
        self.rejected: dict[int, Rejected] = {}
        self.transfers: dict[int, Transfer] = {}
        self.engines: list[list[Engine]] = []
        for kind, count in enumerate(pools):
            each = self._keep if kind else None
            self.engines.append(
                [
                    Engine(
                        scheduler,
                        cost,
                        KvPool(blocks),
                        Recorder(blocks - 1, each=each),
                        replica=place,
                        holds=not kind,
                        leaps=leaps,
                    )
                    for place in range(count)
                ]
            )
        clusters = [Cluster(engines, LeastLoaded()) for engines in self.engines]
        self.ended = Recorder(blocks - 1, each=self._keep, replicas=0)
        link = SharedLink(bytes_per_s, latency_s)
        self.fleet = Disaggregated(*clusters, link, 1.0, self.ended, self._transfer)
        self.fleet.over(jobs).run(self._check)
        for engine in [*self.engines[0], *self.engines[1]]:
            assert engine.state.kv.free == engine.state.kv.capacity
            assert not engine.busy
        assert not self.fleet.on_the_way

    def _keep(self, outcome: Completed | Rejected) -> None:
        kept = self.done if isinstance(outcome, Completed) else self.rejected
        assert outcome.request.id not in kept
        kept[outcome.request.id] = outcome  # type: ignore[assignment]  # of the kind just looked at

    def _transfer(self, transfer: Transfer) -> None:
        self.transfers[transfer.request] = transfer

    def _check(self, arrived: int, now_s: float) -> None:
        states = [engine.state for engine in self.engines[1]]
        inside = sum(len(state.waiting) + len(state.running) for state in states)
        assert arrived == len(self.done) + len(self.rejected) + self.fleet.on_the_way + inside

    def first_ms(self, number: int) -> int:
        return round(1000 * self.done[number].first_token_s)

    def end_ms(self, number: int) -> int:
        return round(1000 * self.done[number].finished_s)


def test_one_request_travels() -> None:
    """10 ms prompt, 20 bytes in 20 ms and 5 ms latency, then two tokens more."""
    run = Run([job(0, 0.0, 20, 3)], latency_s=0.005)
    assert (run.first_ms(0), run.end_ms(0)) == (10, 35 + 20)
    assert run.transfers[0].seconds == pytest.approx(0.025)
    together = serve([job(0, 0.0, 20, 3)], SYNC)
    assert (together.first_ms(0), together.end_ms(0)) == (10, 30)


def test_two_transfers_share_the_link() -> None:
    """Both begin at 10 ms. The shorter has its 10 bytes at 30 ms, the longer then its last 20 alone."""
    run = Run([job(0, 0.0, 10, 2), job(1, 0.0, 30, 2)])
    assert [round(1000 * run.transfers[number].ended_s) for number in (0, 1)] == [30, 50]
    assert run.end_ms(0) == 40
    assert run.end_ms(1) == 60
    assert run.fleet.contention_s.total == pytest.approx(0.010 + 0.010)


def test_a_prompt_holds_its_blocks_until_it_has_left() -> None:
    """3 blocks: the second prompt of 2 waits for the first's transfer, from 10 to 42 ms."""
    jobs = [job(0, 0.0, 32, 2), job(1, 0.0, 32, 2)]
    assert Run(jobs, blocks=4).first_ms(1) == 52
    assert Run(jobs, blocks=4, bytes_per_s=1e9).first_ms(1) == 20
    assert Run(jobs, blocks=6).first_ms(1) == 10


def test_one_token_never_travels() -> None:
    run = Run([job(0, 0.0, 20, 1)])
    assert run.end_ms(0) == 10
    assert not run.transfers


def test_prompts_do_not_delay_who_decodes() -> None:
    """Here a prompt's token costs 1 ms; together it stands between two tokens of the other's answer."""
    cost = LinearCost(0.010, seconds_per_token=0.001)
    jobs = [job(0, 0.0, 1, 10), job(1, 0.015, 100, 2)]
    apart = Run(jobs, bytes_per_s=1e9, cost=cost)
    together = serve(jobs, SYNC, cost=cost)
    assert apart.end_ms(0) == 11 * 10
    assert together.end_ms(0) == 11 * 10 + 100 + 1  # and one step with the other's second token


def test_pools_reject_what_neither_could_hold() -> None:
    assert set(Run([job(0, 0.0, 100, 2), job(1, 0.0, 10, 90)], blocks=6).rejected) == {0, 1}


@given(jobs=workloads(), prefill=st.integers(1, 3), decode=st.integers(1, 3), ahead=st.booleans())
@settings(max_examples=40, deadline=None)
def test_laws(jobs: list[Job], prefill: int, decode: int, ahead: bool) -> None:
    scheduler = Vllm(64, 8, asynchronous=ahead)

    def run(leaps: bool) -> Run:
        cost = LinearCost(0.005, 1e-4, 1e-6)
        return Run(
            jobs,
            pools=(prefill, decode),
            blocks=40,
            bytes_per_s=2e4,
            latency_s=0.001,
            scheduler=scheduler,
            cost=cost,
            leaps=leaps,
        )

    found = run(leaps=True)
    assert len(found.done) == len(jobs)
    for each in jobs:
        done = found.done[each.request.id]
        assert done.output_tokens == each.length
        assert each.request.arrived_s <= done.admitted_s <= done.first_token_s <= done.finished_s
        transfer = found.transfers.get(each.request.id)
        assert (transfer is None) == (each.length == 1)
        if transfer is not None:
            assert done.first_token_s <= transfer.began_s < transfer.ended_s <= done.finished_s
            assert transfer.seconds >= transfer.alone_s - 1e-9
    carried = sum(each.request.prompt_tokens for each in jobs if each.length > 1)
    assert found.fleet.link.carried == pytest.approx(carried)
    again, stepped = run(leaps=True), run(leaps=False)
    assert repr(again.done) == repr(found.done)
    for number, done in stepped.done.items():
        assert done.finished_s == pytest.approx(found.done[number].finished_s, abs=1e-9)


@given(
    starts=st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(1.0, 100.0)), min_size=1, max_size=10),
)
@settings(max_examples=60, deadline=None)
def test_a_shared_link_carries_all_it_can(starts: list[tuple[float, float]]) -> None:
    link, ended = SharedLink(50.0), 0
    for at_s, size in sorted(starts):
        while link.transfers and link.next_end_s() <= at_s:
            ended += 1
            link.finish_first()
        link.start(at_s, size)
    while link.transfers:
        ended += 1
        link.finish_first()
    assert ended == len(starts)
    assert link.busy_s == pytest.approx(sum(size for _, size in starts) / 50.0)
