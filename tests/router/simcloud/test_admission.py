"""Gates on the published example, and the estimates of lengths that they count on."""

from __future__ import annotations

import pytest

from router.simcloud.admission import (
    FuturePeak,
    Greedy,
    Predicted,
    Reserve,
    lightllm_estimate,
    peak_tokens,
    up_to_bound,
)
from router.simcloud.kv import KvPool
from router.simcloud.request import Request
from router.simcloud.schedulers.prefill_first import PrefillFirst
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.state import DecodeGroup, Sequence, ServerState, Waiting
from tests.router.simcloud.serving import job, serve

RUNNING = ((500, 100), (300, 400), (800, 50))  # tokens held, still to come at most
NEW = (400, 300)


def usage_at(pairs: tuple[tuple[int, int], ...], steps: int) -> int:
    """The formula as published: who still runs after ``steps`` holds as many more."""
    return sum(held + steps for held, remaining in pairs if remaining >= steps)


def test_the_published_usages() -> None:
    assert [usage_at(RUNNING, steps) for steps in (50, 100, 400)] == [1750, 1000, 700]
    assert peak_tokens(RUNNING) == 1750
    with_new = (*RUNNING, NEW)
    assert [usage_at(with_new, steps) for steps in (50, 100, 300, 400)] == [2200, 1500, 1300, 700]
    assert peak_tokens(with_new) == 2200


def server(capacity: int, reserved: bool) -> ServerState:
    """RUNNING in blocks of one token; ``reserved``: each holds what it may come to."""
    state = ServerState(KvPool(capacity + 1, 1), Waiting(), DecodeGroup(1))
    for number, (held, remaining) in enumerate(RUNNING):
        state.running[number] = Sequence(Request(number, 0.0, held, remaining), computed=held)
        state.kv.take(held + remaining if reserved else held)
    return state


@pytest.mark.parametrize(
    ("capacity", "peak", "greedy"), [(2600, True, True), (2200, True, True), (2199, False, True)]
)
def test_the_future_peak_decides_at_2200_tokens(capacity: int, peak: bool, greedy: bool) -> None:
    state = server(capacity, reserved=False)
    new = Sequence(Request(9, 0.0, *NEW))
    assert FuturePeak(up_to_bound).admits(state, new, (), NEW[0], state.kv.free) is peak
    assert Greedy().admits(state, new, (), NEW[0], state.kv.free) is greedy


@pytest.mark.parametrize(("capacity", "admitted"), [(2600, False), (2849, False), (2850, True)])
def test_reservation_needs_2850(capacity: int, admitted: bool) -> None:
    state = server(capacity, reserved=True)
    assert Reserve().admits(state, Sequence(Request(9, 0.0, *NEW)), (), NEW[0], state.kv.free) is admitted


@pytest.mark.parametrize(("generated", "calm", "busy"), [(0, 1024, 2048), (1000, 100, 1048), (2000, 48, 48)])
def test_lightllm_counts_on_the_bound_while_a_queue_stands(generated: int, calm: int, busy: int) -> None:
    """min(bound, max(1.1 x generated, 1024)) less what was generated; with a queue the bound."""
    state = ServerState(KvPool(100), Waiting(), DecodeGroup(16))
    sequence = Sequence(Request(0, 0.0, 10, 2048), generated=generated)
    assert lightllm_estimate(state, sequence) == calm
    for number in (1, 2):
        state.waiting.push(Sequence(Request(number, 0.0, 10, 10)))
    assert lightllm_estimate(state, sequence) == busy


def test_a_prediction_lets_in_whom_the_bound_keeps_out() -> None:
    """Blocks of one token, 60 of them; each holds 16 and is bound by 40 more, but says 10."""
    jobs = [job(number, 0.0, 16, 10, bound=40, predicted=10.0) for number in range(2)]
    bound = serve(jobs, PrefillFirst(gate=FuturePeak(up_to_bound)), blocks=61, block_tokens=1)
    told = serve(jobs, PrefillFirst(gate=FuturePeak(Predicted())), blocks=61, block_tokens=1)
    assert (bound.first_ms(1), told.first_ms(1)) == (110, 10)
    assert told.summary.preemptions == 0


def test_a_prompt_that_does_not_fit_whole_waits_or_is_preempted_half_way() -> None:
    """70 blocks: 0 holds 20, so 60 for the other's prompt are not free. In parts it enters at once and is
    cut short at its third (5 blocks free, 16 needed), keeping 43 of its blocks for when 0 has ended."""
    jobs = [job(0, 0.0, 320, 3), job(1, 0.0, 960, 1)]
    whole, parts = (
        serve(jobs, Vllm(512, asynchronous=False, whole_prompt_fits=fits), blocks=71)
        for fits in (True, False)
    )
    assert (whole.first_ms(1), whole.summary.preemptions) == (50, 0)
    assert (parts.first_ms(1), parts.summary.preemptions) == (40, 1)
