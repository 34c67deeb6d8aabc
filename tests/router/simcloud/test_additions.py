"""Host work, masks, retries and speculation: by hand beside the run without them. Steps take 10 ms."""

from __future__ import annotations

import pytest

from router.errors import InvalidSimulation
from router.simcloud.additions import Additions
from router.simcloud.deployment import Deployment, build
from router.simcloud.engine import Engine
from router.simcloud.host import HostWork, masks
from router.simcloud.kv import KvPool
from router.simcloud.metrics import Recorder
from router.simcloud.request import Completed, Job, Rejected
from router.simcloud.retries import Retries
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.speculation import Speculation
from router.simcloud.step_cost import LinearCost
from tests.router.simcloud.serving import job, serve

SYNC = Vllm(asynchronous=False)
ONE = [job(0, 0.0, 20, 3)]


def times_ms(jobs: list[Job], additions: Additions) -> list[tuple[int, int]]:
    done = serve(jobs, SYNC, additions=additions)
    return [(done.first_ms(number), done.end_ms(number)) for number in range(len(jobs))]


@pytest.mark.parametrize(
    ("host_ms", "serial", "overlapped"), [(4, (14, 42), (14, 34)), (25, (35, 105), (35, 85))]
)
def test_stages_add_up_in_series_and_overlap_in_a_pipeline(
    host_ms: int, serial: tuple[int, int], overlapped: tuple[int, int]
) -> None:
    """Overlapped, the GPU begins the next step at once; the host's 25 ms are then what a step takes."""
    one_after_other = Additions(host=HostWork(host_ms / 1000, overlapped=False))
    pipeline = Additions(host=HostWork(host_ms / 1000))
    assert times_ms(ONE, Additions()) == [(10, 30)]
    assert times_ms(ONE, one_after_other) == [serial]
    assert times_ms(ONE, pipeline) == [overlapped]


def test_a_sequence_more_is_host_work_more() -> None:
    two = [job(0, 0.0, 20, 3), job(1, 0.0, 20, 3)]
    assert times_ms(two, Additions(host=HostWork(0.004, overlapped=False))) == [(18, 54)] * 2
    assert times_ms(two, Additions(host=HostWork(0.004))) == [(18, 38)] * 2


def test_a_prompt_is_tokenised_once() -> None:
    """20 tokens at 0.5 ms: in series before the first step, in a pipeline a stage of it."""
    assert times_ms(ONE, Additions(host=HostWork(0.0, 0.0005, overlapped=False))) == [(20, 40)]
    assert times_ms(ONE, Additions(host=HostWork(0.0, 0.0005))) == [(20, 30)]


def test_masks_cost_what_the_step_does_not_hide() -> None:
    assert times_ms(ONE, Additions(masks=masks(0.004))) == [(10, 30)]
    assert times_ms(ONE, Additions(masks=masks(0.004, overlapped=False))) == [(14, 42)]
    assert times_ms(ONE, Additions(masks=masks(0.024, cores=2))) == [(12, 36)]


def again(jobs: list[Job], retries: Retries, *, sharing: bool = True) -> dict[int, Completed]:
    ended: dict[int, Completed] = {}

    def each(outcome: Completed | Rejected) -> None:
        assert isinstance(outcome, Completed)
        ended[outcome.request.id] = outcome

    recorder = Recorder(1000, each=each)
    cost = LinearCost(0.010, seconds_per_token=0.001)
    retries.over(Engine(SYNC, cost, KvPool(1001, 16, sharing), recorder), jobs).run()
    return ended


class Chances:
    """Stands where a request's random source does."""

    def __init__(self, *values: float) -> None:
        self._values = iter(values)

    def random(self) -> float:
        return next(self._values)


def test_an_invalid_answer_is_asked_again_with_its_prompt_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """33 tokens of prompt: 43 ms to the first token, then 11. Again: 32 are cached, 11 ms, then 11."""
    monkeypatch.setattr("router.simcloud.retries.random.Random", lambda seed: Chances(0.1, 0.9))
    retries = Retries(0.2)
    ended = again([job(0, 0.0, 33, 2)], retries)
    assert [round(1000 * each.finished_s) for each in ended.values()] == [54, 76]
    assert (retries.valid, retries.given_up, retries.tries) == (1, 0, 2)
    assert retries.latency.mean == pytest.approx(0.076)
    constrained = Retries(0.0)
    assert len(again([job(0, 0.0, 33, 2)], constrained)) == 1
    assert constrained.latency.mean == pytest.approx(0.054)


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.simcloud.retries.random.Random", lambda seed: Chances(0.1, 0.1, 0.1))
    retries = Retries(0.2, most_tries=3)
    again([job(0, 0.0, 33, 2)], retries)
    assert (retries.valid, retries.given_up, retries.tries) == (0, 1, 3)


def test_tries_are_as_many_as_the_rate_says() -> None:
    retries = Retries(0.3, most_tries=50, seed=5)
    again([job(number, number * 0.05, 16, 1) for number in range(4000)], retries)
    assert retries.valid == 4000
    assert retries.tries / 4000 == pytest.approx(1 / 0.7, rel=0.02)


NINE = [job(0, 0.0, 20, 9)]


@pytest.mark.parametrize(("acceptance", "ends_ms"), [(1.0, 11 + 2 * 13), (0.0, 11 + 8 * 13)])
def test_a_verified_draft_is_several_tokens_a_step(acceptance: float, ends_ms: int) -> None:
    """3 drafts of 1 ms and a pass of 10 ms give 4 tokens or 1; the draft reads the prompt in 1 ms too."""
    speculative = Additions(speculation=Speculation(3, acceptance))
    done = serve(NINE, SYNC, additions=speculative, draft=LinearCost(0.001))
    assert (done.first_ms(0), done.end_ms(0)) == (11, ends_ms)
    assert serve(NINE, SYNC).end_ms(0) == 90
    assert done.summary.output_tokens == 9


def test_verifying_computes_the_drafts_too() -> None:
    """1 ms a token: a pass over 4 tokens takes 14 ms, a step without speculation 11."""
    cost = LinearCost(0.010, seconds_per_token=0.001)
    done = serve(NINE, SYNC, cost=cost, additions=Additions(speculation=Speculation(3, 1.0)))
    assert done.end_ms(0) == 30 + 2 * 14
    assert serve(NINE, SYNC, cost=cost).end_ms(0) == 30 + 8 * 11


def test_drafts_need_blocks_before_they_are_accepted() -> None:
    """15 of 16 places used: one token fits, four may be written, so that the second cannot stay."""
    jobs = [job(0, 0.0, 15, 2, bound=6), job(1, 0.0, 15, 2, bound=6)]
    assert serve(jobs, SYNC, blocks=4).summary.preemptions == 0
    speculative = Additions(speculation=Speculation(3, 0.0))
    assert serve(jobs, SYNC, blocks=4, additions=speculative).summary.preemptions == 1


def test_the_mean_of_accepted_tokens() -> None:
    speculation = Speculation(4, 0.7)
    assert speculation.mean_tokens == pytest.approx((1 - 0.7**5) / (1 - 0.7))
    jobs = [job(number, 0.0, 16, 401) for number in range(60)]
    done = serve(jobs, Vllm(asynchronous=False), blocks=3000, additions=Additions(speculation=speculation))
    steps = [(each.finished_s - each.first_token_s) / 0.010 for each in done.completed.values()]
    assert 400 * 60 / sum(steps) == pytest.approx(speculation.mean_tokens, rel=0.02)


def test_a_draft_model_takes_memory() -> None:
    plain = build(Deployment()).kv.capacity
    both = build(Deployment(additions=Additions(speculation=Speculation(), draft="llama-3.2-1b"))).kv.capacity
    assert 0.7 * plain < both < 0.8 * plain
    with pytest.raises(InvalidSimulation, match="pads"):
        build(Deployment(policy="static", additions=Additions(speculation=Speculation())))


def test_what_is_added_is_checked() -> None:
    for wrong in (
        lambda: HostWork(-1.0),
        lambda: masks(cores=0),
        lambda: Speculation(0),
        lambda: Speculation(2, 1.5),
        lambda: Retries(1.0),
    ):
        with pytest.raises(InvalidSimulation):
            wrong()
