"""The choice of threads on simulated machines: near the best count, whatever else runs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.machine import thread_counts
from localchat.engines.threads import RECENT, ThreadTuner, median

# Tokens a second by thread count, measured on two cores: free, and with one of
# them taken by another program.
QUIET = {1: 75.0, 2: 110.0}
BUSY = {1: 66.0, 2: 27.0}

Machine = Callable[[int, float], float]
"""Tokens a second with so many threads, at that second."""


def always(speeds: dict[int, float]) -> Machine:
    return lambda count, _: speeds[count]


def busy_between(start: float, end: float) -> Machine:
    return lambda count, now: (BUSY if start <= now < end else QUIET)[count]


def alternating(period_s: float) -> Machine:
    return lambda count, now: (BUSY if int(now / period_s) % 2 else QUIET)[count]


def noisy(machine: Machine, seed: int, share: float) -> Machine:
    noise = random.Random(seed)
    return lambda count, now: machine(count, now) * (1 + noise.uniform(-share, share))


def deepening(machine: Machine, tokens_per_halving: float) -> Machine:
    """Each token a little slower than the one before, as the context grows."""
    seen = 0

    def speed(count: int, now: float) -> float:
        nonlocal seen
        seen += 1
        return machine(count, now) / (1 + seen / tokens_per_halving)

    return speed


@dataclass
class Run:
    tokens: int = 0
    counts: list[int] = field(default_factory=list)  # used for each token

    def changes(self) -> int:
        return sum(a != b for a, b in zip(self.counts, self.counts[1:], strict=False))


def run(machine: Machine, seconds: float, tuner: ThreadTuner, started: float = 0.0) -> Run:
    now, result = started, Run()
    while now < started + seconds:
        duration = 1 / machine(tuner.count, now)
        result.counts.append(tuner.count)
        tuner.observe(duration)
        now += duration
        result.tokens += 1
    return result


def fixed(machine: Machine, seconds: float, count: int) -> int:
    return run(machine, seconds, ThreadTuner((count,), count)).tokens


MACHINES: dict[str, Callable[[], Machine]] = {
    "quiet": lambda: always(QUIET),
    "busy throughout": lambda: always(BUSY),
    "busy from the 5th second": lambda: busy_between(5, 1e9),
    "busy until the 10th second": lambda: busy_between(0, 10),
    "busy every other 3 s": lambda: alternating(3.0),
    "busy every other second": lambda: alternating(1.0),
    "quiet, noise": lambda: noisy(always(QUIET), 1, 0.15),
    "busy, noise": lambda: noisy(always(BUSY), 2, 0.15),
    "alternating, noise": lambda: noisy(alternating(3.0), 3, 0.15),
    "quiet, ever deeper": lambda: deepening(always(QUIET), 2000),
    "busy, ever deeper": lambda: deepening(always(BUSY), 2000),
}


@pytest.mark.parametrize("start", [1, 2])
@pytest.mark.parametrize("name", MACHINES)
def test_the_throughput_is_near_that_of_the_best_fixed_count(name: str, start: int) -> None:
    make = MACHINES[name]
    best = max(fixed(make(), 20.0, count) for count in (1, 2))
    tokens = run(make(), 20.0, ThreadTuner((1, 2), start)).tokens
    assert tokens >= 0.9 * best


@pytest.mark.parametrize(("speeds", "best"), [(QUIET, 2), (BUSY, 1)])
def test_noise_costs_little(speeds: dict[int, float], best: int) -> None:
    for seed in range(20):
        tokens = run(noisy(always(speeds), seed, 0.15), 20.0, ThreadTuner((1, 2), 2)).tokens
        assert tokens >= 0.9 * fixed(noisy(always(speeds), seed, 0.15), 20.0, best)


@given(st.integers(0, 300))
def test_a_core_taken_at_any_token_is_noticed_within_a_few(quiet_tokens: int) -> None:
    tuner = ThreadTuner((1, 2), 2)
    for _ in range(quiet_tokens):
        tuner.observe(1 / QUIET[tuner.count])
    with_two = sum(tuner.observe(1 / BUSY[tuner.count]) == 2 for _ in range(40))
    assert with_two <= 12  # also from a cold start, where the slow speed is the only one known


def test_a_core_that_is_free_again_is_used_again() -> None:
    tuner = ThreadTuner((1, 2), 2)
    run(always(QUIET), 5.0, tuner)
    run(always(BUSY), 30.0, tuner)
    assert tuner.settled == 1
    back = run(always(QUIET), 12.0, tuner)
    assert tuner.settled == 2
    assert back.counts[-100:].count(2) >= 90


def test_a_long_contention_is_cheap() -> None:
    tuner = ThreadTuner((1, 2), 2)
    run(always(BUSY), 30.0, tuner)
    tokens = run(always(BUSY), 60.0, tuner).tokens
    assert tokens >= 0.97 * fixed(always(BUSY), 60.0, 1)


def test_a_context_that_grows_deeper_starts_no_trial() -> None:
    tuner = ThreadTuner((1, 2), 2)
    run(always(QUIET), 1.0, tuner)
    assert run(deepening(always(QUIET), 1000), 30.0, tuner).changes() == 0


@given(st.lists(st.floats(1e-4, 10.0), max_size=200), st.integers(1, 64))
def test_a_single_count_never_changes(durations: list[float], count: int) -> None:
    tuner = ThreadTuner((count,), count)
    assert all(tuner.observe(seconds) == count for seconds in durations)


@given(st.lists(st.floats(0.0, 10.0), max_size=300), st.integers(1, 64), st.data())
def test_the_count_is_always_a_candidate(durations: list[float], cores: int, data: st.DataObject) -> None:
    counts = thread_counts(cores)
    tuner = ThreadTuner(counts, data.draw(st.sampled_from(counts)))
    for seconds in durations:
        assert tuner.observe(seconds) == tuner.count
        assert {tuner.count, tuner.settled} <= set(counts)


@pytest.mark.parametrize("cores", [4, 8, 16])
def test_the_best_of_many_counts_is_found(cores: int) -> None:
    for best in thread_counts(cores):
        # Bandwidth is full with ``best`` threads; beyond, each one costs a tenth.
        def speed(count: int, _: float, best: int = best) -> float:
            return 20.0 * math.pow(min(count, best), 0.8) * math.pow(0.9, max(0, count - best))

        tuner = ThreadTuner(thread_counts(cores), cores)
        run(speed, 10.0, tuner)
        tokens = run(speed, 20.0, tuner, 10.0).tokens
        assert tokens >= 0.9 * fixed(speed, 20.0, best)


@given(st.integers(1, 256))
def test_counts_ascend_to_all_the_cores(cores: int) -> None:
    counts = thread_counts(cores)
    assert list(counts) == sorted(set(counts))
    assert counts[-1] == cores
    assert counts[0] >= 1


@given(st.lists(st.floats(0, 100), min_size=1, max_size=9))
def test_the_median_is_the_upper_one(values: list[float]) -> None:
    assert median(values) == sorted(values)[len(values) // 2]


def test_threads_that_collapse_from_the_beginning_are_not_waited_for() -> None:
    """Chunks of a prompt take seconds then: half a dozen of them would be half a minute."""
    tuner = ThreadTuner((1, 2), 2)
    counts = []
    for _ in range(8):
        token_s = 0.002 if tuner.count == 1 else 0.07
        counts.append(tuner.observe(token_s, spent_s=32 * token_s))
    assert counts[0] == 1
    assert (tuner.settled, tuner.count) == (1, 1)


def test_quick_chunks_leave_the_threads_as_they_are_until_there_are_enough_of_them() -> None:
    tuner = ThreadTuner((1, 2), 2)
    for _ in range(RECENT - 1):
        assert tuner.observe(0.002, spent_s=0.25) == 2
