"""Each policy on a trace worked out by hand, beside the neighbour it differs from. Steps take 10 ms."""

from __future__ import annotations

import pytest

from router.simcloud.admission import FuturePeak, InFlight, PastFuture, Reserve, up_to_bound
from router.simcloud.ordering import by_priority, oracle, predicted, shortest_first
from router.simcloud.schedulers.orca import Orca
from router.simcloud.schedulers.prefill_first import PrefillFirst
from router.simcloud.schedulers.static import Static
from router.simcloud.schedulers.vllm import Vllm
from router.simcloud.step_cost import LinearCost
from router.simcloud.swap import Swap
from tests.router.simcloud.serving import job, serve

SYNC = Vllm(asynchronous=False)


def test_one_request_alone() -> None:
    """The prompt's step emits the first token, each further one takes a step."""
    done = serve([job(0, 1.0, 20, 4)], SYNC)
    assert (done.first_ms(0), done.end_ms(0)) == (1010, 1040)
    assert done.completed[0].tpot_s == pytest.approx(0.010)


def test_static_waits_for_the_longest_and_orca_does_not() -> None:
    jobs = [job(0, 0.0, 16, 2), job(1, 0.0, 16, 5), job(2, 0.0, 16, 1)]
    static, orca = serve(jobs, Static(2)), serve(jobs, Orca(2))
    assert (static.end_ms(0), static.end_ms(1), static.end_ms(2)) == (20, 50, 60)
    assert (orca.end_ms(0), orca.end_ms(1), orca.end_ms(2)) == (20, 50, 30)


def test_a_static_batch_computes_who_is_done_as_padding() -> None:
    """1 ms for each sequence and step, 0 for prompts: two members, then still two."""
    cost = LinearCost(0.0, seconds_per_token=0.001)
    jobs = [job(0, 0.0, 10, 1), job(1, 0.0, 10, 3)]
    assert serve(jobs, Static(2), cost=cost).end_ms(1) == 20 + 2 + 2
    assert serve(jobs, Orca(2), cost=cost).end_ms(1) == 20 + 1 + 1


def test_orca_reserves_the_bound_and_vllm_takes_blocks_as_needed() -> None:
    jobs = [job(0, 0.0, 16, 4, bound=64), job(1, 0.0, 16, 4, bound=64)]  # 5 blocks at their bound
    orca, vllm = serve(jobs, Orca(), blocks=9), serve(jobs, SYNC, blocks=9)
    assert (orca.first_ms(1), vllm.first_ms(1)) == (50, 10)
    assert orca.summary.preemptions == vllm.summary.preemptions == 0


def test_the_old_vllm_stops_those_that_decode_for_a_prompt_and_v1_does_not() -> None:
    jobs = [job(0, 0.0, 16, 4), job(1, 0.005, 16, 2)]
    old, v1 = serve(jobs, PrefillFirst()), serve(jobs, SYNC)
    assert (old.first_ms(1), old.end_ms(0)) == (20, 50)
    assert (v1.first_ms(1), v1.end_ms(0)) == (20, 40)
    assert old.summary.itl_s.mean == pytest.approx(0.0125)  # one of four gaps has the prompt's step in it


def test_sarathi_cuts_a_prompt_that_v1_takes_at_once() -> None:
    jobs = [job(0, 0.0, 16, 5), job(1, 0.005, 1000, 1)]
    sarathi = serve(jobs, Vllm(token_budget=512, asynchronous=False))
    assert serve(jobs, SYNC).first_ms(1) == 20
    assert sarathi.first_ms(1) == 30  # 511 beside the decode, then 489
    assert sarathi.end_ms(0) == 50


def test_planning_ahead_costs_an_arrival_one_step_more() -> None:
    jobs = [job(0, 0.0, 20, 10), job(1, 0.015, 20, 2)]
    assert serve(jobs, SYNC).first_ms(1) == 30
    ahead = serve(jobs, Vllm(asynchronous=True))
    assert ahead.first_ms(1) == 40
    assert ahead.completed[1].admitted_s == pytest.approx(0.020)


def test_blocks_of_one_token_hold_what_blocks_of_16_cannot() -> None:
    jobs = [job(number, 0.0, 9, 1) for number in range(3)]
    paged = serve(jobs, SYNC, blocks=3, block_tokens=16)
    tokens = serve(jobs, SYNC, blocks=33, block_tokens=1)
    assert [paged.first_ms(number) for number in range(3)] == [10, 10, 20]
    assert [tokens.first_ms(number) for number in range(3)] == [10, 10, 10]


GROWING = [job(0, 0.0, 16, 33), job(1, 0.0, 16, 33)]  # 4 blocks each at their end, 4 there are


def test_greedy_admission_preempts_where_the_future_peak_waits() -> None:
    greedy = serve(GROWING, SYNC, blocks=5)
    peak = serve(GROWING, Vllm(asynchronous=False, gate=FuturePeak(up_to_bound)), blocks=5)
    assert (greedy.first_ms(1), greedy.summary.preemptions) == (10, 1)
    assert (peak.first_ms(1), peak.summary.preemptions) == (340, 0)
    # Preempted when both need a third block (33 tokens): found two blocks of its own again at 330 ms.
    assert greedy.completed[1].preemptions == 1
    assert (greedy.end_ms(0), peak.end_ms(0)) == (330, 330)
    assert greedy.end_ms(1) == 330 + 10 * (33 - 17)


def test_reservation_never_preempts() -> None:
    done = serve(GROWING, Vllm(asynchronous=False, gate=Reserve()), blocks=5)
    assert (done.first_ms(1), done.summary.preemptions) == (340, 0)


def test_past_future_admits_by_what_answers_were_long_lately() -> None:
    jobs = [
        job(0, 0.0, 16, 4, bound=33),
        job(1, 0.1, 16, 4, bound=33),
        job(2, 0.1, 16, 4, bound=33),
    ]
    bound = serve(jobs, PrefillFirst(gate=FuturePeak(up_to_bound)), blocks=65, block_tokens=1)
    past = serve(jobs, PrefillFirst(gate=FuturePeak(PastFuture())), blocks=65, block_tokens=1)
    assert (bound.first_ms(1), bound.first_ms(2)) == (110, 150)
    assert (past.first_ms(1), past.first_ms(2)) == (110, 110)


def test_a_budget_of_tokens_in_flight_holds_back_who_would_fit() -> None:
    jobs = [job(number, 0.0, 16, 4) for number in range(3)]  # 20 tokens each
    done = serve(jobs, Vllm(asynchronous=False, gate=InFlight(40)))
    assert [done.first_ms(number) for number in range(3)] == [10, 10, 50]


def test_shortest_first_needs_a_prediction() -> None:
    jobs = [job(0, 0.0, 16, 5, bound=9), job(1, 0.0, 16, 3, bound=9), job(2, 0.0, 16, 1, bound=9)]
    fcfs = serve(jobs, Vllm(max_sequences=1, asynchronous=False))
    sjf = serve(predicted(jobs, oracle), Vllm(max_sequences=1, asynchronous=False, order=shortest_first))
    wrong = serve(
        predicted(jobs, lambda each: -each.length),
        Vllm(max_sequences=1, asynchronous=False, order=shortest_first),
    )
    assert [fcfs.end_ms(number) for number in range(3)] == [50, 80, 90]
    assert [sjf.end_ms(number) for number in range(3)] == [90, 40, 10]
    assert [wrong.end_ms(number) for number in range(3)] == [50, 80, 90]


URGENT = [job(0, 0.0, 16, 5, priority=1), job(1, 0.015, 16, 2, priority=0)]
PRIORITY = Vllm(max_sequences=1, asynchronous=False, order=by_priority, victim=by_priority, overtakes=True)


def test_an_urgent_request_preempts_a_less_urgent_one() -> None:
    fcfs, urgent = serve(URGENT, Vllm(max_sequences=1, asynchronous=False)), serve(URGENT, PRIORITY)
    assert (fcfs.end_ms(0), fcfs.end_ms(1)) == (50, 70)
    assert (urgent.end_ms(0), urgent.end_ms(1)) == (70, 40)
    assert urgent.completed[0].preemptions == 1


def test_swapping_moves_what_recomputing_computes_again() -> None:
    """1 ms for each token computed; 17 tokens of 1 kB leave and come back over 1 MB/s, 17 ms each way."""
    cost = LinearCost(0.0, seconds_per_token=0.001)
    jobs = [job(0, 0.0, 16, 5, priority=1), job(1, 0.0165, 16, 1, priority=0)]
    # Prompt to 16 ms, a decode to 17 ms; preempted with 17 tokens held and 2 emitted; the other's 16 ms.
    again = serve(jobs, PRIORITY, cost=cost, sharing=False)
    swapped = serve(jobs, PRIORITY, cost=cost, sharing=False, swap=Swap(1e3, 1e6))
    assert (again.end_ms(1), again.end_ms(0)) == (17 + 16, 33 + 18 + 2)
    assert (swapped.end_ms(1), swapped.end_ms(0)) == (17 + 17 + 16, 50 + 17 + 1 + 2)


def test_a_prompt_with_a_known_beginning_skips_it() -> None:
    """1 ms for each token: the second prompt of 40 finds two blocks of 16."""
    cost = LinearCost(0.0, seconds_per_token=0.001)
    jobs = [job(0, 0.0, 40, 1, prefix=(1, 2, 3)), job(1, 1.0, 40, 1, prefix=(1, 2, 4))]
    shared, alone = serve(jobs, SYNC, cost=cost), serve(jobs, SYNC, cost=cost, sharing=False)
    assert (alone.first_ms(1), shared.first_ms(1)) == (1040, 1008)
    assert shared.completed[1].cached_tokens == 32


def test_a_prompt_known_entirely_computes_its_last_token() -> None:
    cost = LinearCost(0.0, seconds_per_token=0.001)
    jobs = [job(0, 0.0, 32, 1, prefix=(1, 2)), job(1, 1.0, 32, 1, prefix=(1, 2))]
    assert serve(jobs, SYNC, cost=cost).first_ms(1) == 1016  # a block must be computed to get its last token


def test_a_request_larger_than_the_cache_is_rejected() -> None:
    done = serve([job(0, 0.0, 100, 100), job(1, 0.0, 16, 2)], Vllm(), blocks=10)
    assert list(done.rejected) == [0]
    assert list(done.completed) == [1]
