"""Studies of dynamic batching, host work, masks and drafts: who wins, and where that turns, as published."""

from __future__ import annotations

import pytest

from router.simcloud.additions import NONE, Additions
from router.simcloud.host import HostWork
from router.simcloud.speculation import Speculation
from router.simcloud.studies import constrained, pipeline, queue_delay, speculative
from router.simcloud.studies.queue_delay import LEVEL_S, LINEAR, RULES


def p99_s(rule: str, rate: float) -> float:
    found = queue_delay.serve(LINEAR, RULES[rule], rate, 0).latency_s.p99
    assert found is not None
    return found


def test_delay_0_sustains_many_times_the_rate_without_batching() -> None:
    alone, batched = (
        queue_delay.sustained(LINEAR, RULES[name], 0)[0] for name in ("one at a time", "delay 0 ms")
    )
    assert 7 <= batched / alone <= 11


def test_a_long_delay_misses_the_level_at_low_load_and_hardly_matters_at_high_load() -> None:
    assert p99_s("delay 0 ms", 300) < LEVEL_S < p99_s("delay 8 ms", 300)
    assert p99_s("delay 2 ms", 5000) == pytest.approx(p99_s("delay 0 ms", 5000), rel=0.1)


def test_overlapping_on_an_h100_with_a_batch_of_256_is_about_a_third_faster() -> None:
    def gain(gpu: str, batch: int) -> float:
        serial, beside = (
            pipeline.serve(gpu, batch, 512, 512, HostWork(25e-6, overlapped=overlapped)).output_tokens_per_s
            for overlapped in (False, True)
        )
        return beside / serial - 1

    assert 0.25 < gain("h100", 256) < 0.45
    assert gain("a100", 256) < gain("h100", 256)
    assert gain("h100", 32) < gain("h100", 256)


def test_retries_cost_what_masks_do_not() -> None:
    masked = constrained.serve(constrained.MASKS["masks 50 us, beside"], 0.0, 1e6, 0)
    free = constrained.serve(NONE, 0.0, 1e6, 0)
    retried = constrained.serve(NONE, 0.3, 1e6, 0)
    assert masked.valid_per_s > 0.95 * free.valid_per_s
    assert retried.valid_per_s < 0.8 * free.valid_per_s


def test_speculation_helps_few_and_hinders_many() -> None:
    drafted = Additions(speculation=Speculation(4, 0.8), draft="llama-3.2-1b")
    gains = [
        speculative.serve(drafted, batch).output_tokens_per_s
        / speculative.serve(NONE, batch).output_tokens_per_s
        for batch in (1, 256)
    ]
    assert gains[0] > 1.5
    assert gains[1] < gains[0]
