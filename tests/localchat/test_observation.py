"""Where the time of a reply went: each cause, injected, moves its own part and no other."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import asdict, replace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.predict import DecodeTerms
from localchat.explain import explained, reply_depth
from localchat.observation import Counters, Reading, ReplyWatch, observed
from router.forecaster import Observed
from tests.router.forecasters import FORECAST, TERMS

CORES, TOKENS, SECONDS = 2, 400, 5.0  # 80 tokens/s, as predicted
GHZ = 1e9
BEGIN = Reading(at_s=100.0, busy_s=5_000.0, own_s=3.0, engine_s=700.0, clock_hz=3 * GHZ)
QUIET = Reading(at_s=105.0, busy_s=5_010.0, own_s=3.0, engine_s=710.0, clock_hz=3 * GHZ)
EXPECTED_DEPTH = FORECAST.depth


def terms_at(depth: float) -> DecodeTerms:
    return replace(TERMS, kv_s=TERMS.kv_s * depth / EXPECTED_DEPTH)


def parts(
    end: Reading = QUIET, depth: float = EXPECTED_DEPTH, slower_s: float = 0.0, threads: int = 2
) -> dict[str, float]:
    """The parts of a reply whose tokens really took ``slower_s`` longer."""
    seen = observed([BEGIN, end], CORES, 3 * GHZ)
    rate = 1 / (TERMS.total_s + slower_s)
    return asdict(explained(replace(FORECAST, threads=threads), terms_at(depth), seen, TOKENS, rate))


def only(found: dict[str, float], name: str) -> float:
    moved = found.pop(name)
    assert all(abs(part) < 1e-9 for part in found.values()), found
    return moved


def test_a_reply_as_predicted_has_no_parts() -> None:
    assert all(abs(part) < 1e-12 for part in parts().values())


def test_a_busy_core_is_other_programs_doing_alone() -> None:
    busy = replace(QUIET, busy_s=5_010.0, engine_s=705.5)  # 0.9 of the two cores went elsewhere
    slower_s = TERMS.total_s * 0.45 / 0.55
    assert only(parts(busy, slower_s=slower_s), "contention_s") == pytest.approx(slower_s)


def test_a_deeper_context_is_the_contexts_doing_alone() -> None:
    depth = reply_depth(FORECAST.prompt_tokens, 3_800)
    assert depth == 10 * EXPECTED_DEPTH
    assert only(parts(depth=depth, slower_s=9 * TERMS.kv_s), "context_s") == pytest.approx(9 * TERMS.kv_s)


def test_weights_pushed_out_of_the_cache_by_the_context_are_its_doing() -> None:
    deep = replace(TERMS, kv_s=TERMS.kv_s * 2, weights_s=TERMS.weights_s * 3)
    slower_s = TERMS.kv_s + 2 * TERMS.weights_s
    found = asdict(
        explained(FORECAST, deep, Observed(SECONDS, CORES), TOKENS, 1 / (TERMS.total_s + slower_s))
    )
    assert only(found, "context_s") == pytest.approx(slower_s)


def test_a_slow_screen_is_the_screens_doing_alone() -> None:
    drawing = replace(QUIET, own_s=3.8, engine_s=709.2)  # 0.8 s of drawing for 400 tokens
    assert only(parts(drawing, slower_s=0.002), "screen_s") == pytest.approx(0.002)


def test_a_slow_clock_is_throttling_alone() -> None:
    slower_s = TERMS.total_s * (1 / 0.75 - 1)
    hot = replace(QUIET, clock_hz=1.5 * GHZ)  # 2.25 GHz on average
    assert only(parts(hot, slower_s=slower_s), "throttling_s") == pytest.approx(slower_s)


def test_what_ran_on_a_core_the_engine_left_free_delayed_nothing() -> None:
    beside = replace(QUIET, engine_s=705.0, own_s=3.5)
    found = parts(beside, threads=1)
    assert all(abs(part) < 1e-12 for part in found.values()), found


def test_what_nobody_observed_stays_unexplained() -> None:
    assert only(parts(slower_s=0.004), "unexplained_s") == pytest.approx(0.004)


COUNTER = st.floats(0, 1e6)


@given(
    st.lists(
        st.builds(Reading, COUNTER, COUNTER, COUNTER, COUNTER, st.none() | st.floats(1e8, 6e9)), min_size=1
    )
)
def test_any_counters_give_an_observation_within_the_machine(readings: list[Reading]) -> None:
    readings = sorted(readings, key=lambda reading: reading.at_s)
    seen = observed(readings, CORES, 3 * GHZ)
    assert 0 <= seen.others_cores <= CORES
    assert seen.clock is None or seen.clock > 0


def test_a_moment_is_too_short_to_blame_anybody() -> None:
    end = replace(BEGIN, at_s=100.1, busy_s=5_000.2)
    assert observed([BEGIN, end], CORES, 3 * GHZ) == Observed(pytest.approx(0.1), CORES)


# -- real processes: how much each used is known from their own counters, so that no wall time decides

SPIN = "import time\nend = time.monotonic() + 30\nwhile time.monotonic() < end: pass"


def test_a_really_busy_program_is_seen_among_the_others() -> None:
    watch = ReplyWatch(Counters(lambda: None), os.cpu_count() or 1)
    with subprocess.Popen([sys.executable, "-c", SPIN]) as busy:
        try:
            its = psutil.Process(busy.pid)
            watch.begin()
            before_s = sum(its.cpu_times()[:2])
            time.sleep(1.0)
            used_s = sum(its.cpu_times()[:2]) - before_s
            seen = watch.observed()
        finally:
            busy.kill()
    assert used_s > 0.1
    assert seen.others_cores * seen.seconds >= used_s - 0.1  # its own ticks, and whatever else runs here
    assert seen.own_cpu_s < 0.1


def test_the_engine_is_none_of_the_others() -> None:
    with subprocess.Popen([sys.executable, "-c", SPIN]) as engine:
        try:
            seeing, blind = (Counters(pid) for pid in (lambda: engine.pid, lambda: None))
            seen, unseen = ReplyWatch(seeing, 64), ReplyWatch(blind, 64)
            seen.begin()
            unseen.begin()
            time.sleep(1.0)
            taken, all_taken = seen.observed(), unseen.observed()
        finally:
            engine.kill()
    assert all_taken.others_cores - taken.others_cores > 0.1 or all_taken.others_cores == 0


def test_a_really_slow_screen_is_this_process_and_not_another() -> None:
    counters = Counters(lambda: None)
    quiet, slow = ReplyWatch(counters, 64), ReplyWatch(counters, 64)
    quiet.begin()
    time.sleep(0.5)
    calm = quiet.observed()
    slow.begin()
    began_s = time.process_time()
    while time.process_time() - began_s < 0.5:
        pass
    seen = slow.observed()
    assert seen.own_cpu_s == pytest.approx(0.5, abs=0.1)
    assert calm.own_cpu_s < 0.1
    first, last = slow._readings[0], slow._readings[-1]
    others_s = (last.busy_s - first.busy_s) - (last.own_s - first.own_s)
    assert seen.others_cores * seen.seconds == pytest.approx(max(0.0, others_s))


def test_an_engine_that_has_gone_leaves_what_was_read(tmp_path: object) -> None:
    pids = iter([os.getpid()])
    watch = ReplyWatch(Counters(lambda: next(pids, 2**22 + 1)), 2)
    watch.begin()
    assert watch.observed().others_cores == 0
    assert ReplyWatch(Counters(lambda: None), 2).observed() == Observed(cores=2)
