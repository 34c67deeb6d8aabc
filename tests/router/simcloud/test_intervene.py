"""Requests that are watched, ended and called off while an engine runs: what holds under every policy."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.metrics import Recorder
from router.simcloud.request import Completed, Job, Rejected, Request
from router.simcloud.state import Sequence
from tests.router.simcloud.serving import TEN_MS
from tests.router.simcloud.test_laws import BLOCKS, FEW, SCHEDULERS, every_scheduler, workloads


@dataclass
class Live:
    """An engine that is asked from outside, and what it tells."""

    name: str
    tokens: dict[int, list[float]] = field(default_factory=dict)
    completed: dict[int, Completed] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.kv = KvPool(BLOCKS)
        self.recorder = Recorder(self.kv.capacity, each=self._ended)
        self.engine = Engine(SCHEDULERS[self.name], TEN_MS, self.kv, self.recorder)

    def _ended(self, outcome: Completed | Rejected) -> None:
        assert isinstance(outcome, Completed)
        self.completed[outcome.request.id] = outcome

    def _told(self, sequence: Sequence, out_s: float, batch: int) -> None:
        assert batch >= 1
        self.tokens.setdefault(sequence.request.id, []).append(out_s)

    def submit(self, job: Job) -> None:
        assert self.engine.submit(job) is None
        self.engine.watch(job.request.id, self._told)

    def finish(self) -> None:
        self.engine.advance(1e6)
        assert not self.engine.busy
        assert self.kv.free == self.kv.capacity


@every_scheduler
@given(jobs=workloads())
@FEW
def test_every_token_of_a_watched_request_is_told_once_and_in_time(name: str, jobs: list[Job]) -> None:
    live = Live(name)
    for job in jobs:
        live.engine.advance(job.request.arrived_s)
        live.submit(job)
    live.finish()
    for job in jobs:
        told, done = live.tokens[job.request.id], live.completed[job.request.id]
        assert len(told) == done.output_tokens == job.length
        assert told == sorted(told)
        assert (told[0], told[-1]) == (done.first_token_s, done.finished_s)


@every_scheduler
@given(jobs=workloads(), data=st.data())
@FEW
def test_who_is_called_off_or_ended_leaves_nothing_behind(
    name: str, jobs: list[Job], data: st.DataObject
) -> None:
    live, cancelled, ended = Live(name), set(), {}
    for job in jobs:
        live.engine.advance(job.request.arrived_s)
        live.submit(job)
        victim = data.draw(st.integers(0, job.request.id))
        what = data.draw(st.sampled_from(["nothing", "cancel", "end"]))
        if what == "cancel" and live.engine.cancel(victim, live.engine.now_s):
            cancelled.add(victim)
        elif what == "end" and victim not in live.completed and victim not in cancelled:
            tokens = data.draw(st.integers(1, 40))
            ended.setdefault(victim, []).append(tokens)
            live.engine.intervene.end_after(victim, tokens)
    live.finish()
    assert set(live.completed) == {job.request.id for job in jobs} - cancelled
    assert live.recorder.summary().cancelled == len(cancelled)
    lengths = {job.request.id: job.length for job in jobs}
    for number, tokens in ended.items():
        if number in live.completed:
            done = live.completed[number].output_tokens
            assert done in (*tokens, lengths[number])  # after the last token a length changes nothing
            assert len(live.tokens[number]) >= done  # it may have had more when it turned out


@pytest.mark.parametrize("other", ["static", "vllm", "vllm-priority", "past-future"])
@given(jobs=workloads(), at_s=st.floats(0.0, 3.0))
@FEW
def test_who_moves_to_another_engine_gets_each_token_once(other: str, jobs: list[Job], at_s: float) -> None:
    old, new = Live("vllm-async"), Live(other)
    new.tokens = old.tokens
    for job in jobs:
        old.engine.advance(job.request.arrived_s)
        old.submit(job)
    old.engine.advance(at_s)
    inside = old.engine.evacuate()
    new.engine.wait_until(old.engine.now_s)
    for sequence, length in inside:
        assert new.engine.adopt(sequence, length)
        new.engine.watch(sequence.request.id, new._told)
    new.finish()
    assert {**old.completed, **new.completed}.keys() == {job.request.id for job in jobs}
    for job in jobs:
        told = old.tokens[job.request.id]
        assert len(told) == job.length
        assert told == sorted(told)


def test_calling_off_twice_or_what_is_not_there_does_nothing() -> None:
    live = Live("vllm")
    live.submit(Job(Request(1, 0.0, 10, 10), 10))
    assert live.engine.cancel(1, 0.0)
    assert not live.engine.cancel(1, 0.0)
    assert not live.engine.cancel(7, 0.0)
    live.engine.intervene.end_after(7, 3)
    live.finish()
