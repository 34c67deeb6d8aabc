"""Published arithmetic, to the last digit given."""

from __future__ import annotations

import random

import pytest

from router.simcloud.footprint import paged_bytes, preallocated_bytes, waste
from router.simcloud.llm import find_llm
from router.simcloud.metrics import usd_per_million_tokens
from router.simcloud.schedulers.orca import Orca
from router.simcloud.schedulers.static import Static
from router.simcloud.schedulers.vllm import Vllm
from tests.router.simcloud.serving import job, serve


def test_static_against_continuous() -> None:
    """100 answers of 10 to 500 tokens, at most 8 at a time, 10 ms a step, all there at 0."""
    lengths = random.Random(42)
    jobs = [job(number, 0.0, 1, lengths.randint(10, 500)) for number in range(100)]
    static = serve(jobs, Static(8), blocks=10_000).summary.output_tokens_per_s
    continuous = serve(jobs, Orca(8), blocks=10_000).summary.output_tokens_per_s
    assert static == pytest.approx(429.5, abs=0.05)
    assert continuous == pytest.approx(756.3, abs=0.05)
    assert continuous / static == pytest.approx(1.76, abs=0.005)
    v1 = serve(jobs, Vllm(max_sequences=8, asynchronous=False), blocks=10_000)
    assert v1.summary.output_tokens_per_s == pytest.approx(continuous)


@pytest.mark.parametrize(
    ("requests", "longest", "mean", "preallocated_gb", "paged_gb", "times", "wasted"),
    [
        (256, 4096, 256, 104.9, 6.6, 16.0, 0.938),
        (256, 8192, 1024, 209.7, 26.2, 8.0, 0.875),
        (64, 131072, 16000, 838.9, 102.4, 8.2, 0.878),
    ],
)
def test_paged_against_preallocated(
    requests: int,
    longest: int,
    mean: int,
    preallocated_gb: float,
    paged_gb: float,
    times: float,
    wasted: float,
) -> None:
    all_at_once = preallocated_bytes(requests, longest, 100_000)
    paged = paged_bytes(requests, mean, 16, 100_000)
    assert all_at_once / 1e9 == pytest.approx(preallocated_gb, abs=0.05)
    assert paged / 1e9 == pytest.approx(paged_gb, abs=0.05)
    assert all_at_once / paged == pytest.approx(times, abs=0.05)
    used = requests * mean * 100_000
    assert waste(all_at_once, used) == pytest.approx(wasted, abs=0.0005)
    assert waste(paged, used) == 0


def test_kv_of_llama_3_8b() -> None:
    assert find_llm("llama-3-8b").kv_bytes_per_token == 128 * 1024


def test_half_the_rate_doubles_the_cost_of_a_token() -> None:
    assert usd_per_million_tokens(3.6, 1000.0) == pytest.approx(1.0)
    assert usd_per_million_tokens(3.6, 500.0) == pytest.approx(2.0)
