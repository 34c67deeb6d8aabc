"""How many requests a second one GPU serves within a chat's service level, and what a token costs then.

Owns the workload, the level, the GPUs compared and what is said of the outcome.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from router.simcloud.capacity import largest_rate
from router.simcloud.deployment import Deployment
from router.simcloud.metrics import ServiceLevel, Summary
from router.simcloud.studies.sweep import Row, lines, serve, sweep
from router.simcloud.studies.table import Table
from router.simcloud.workload import lognormal, open_loop, poisson

NAME = "capacity"
SUMMARY = "the largest rate within a service level, and USD per million tokens, by GPU"

REQUESTS = 4000
SECONDS = 120.0
"""Long enough that a queue which grows is seen; REQUESTS at most."""

GPUS = ("l4", "rtx4090", "l40s", "a100", "h100", "h200")
LEVEL = ServiceLevel(ttft_s=1.0, tpot_s=0.1)
"""Chat: first token within 1 s, each further one within 100 ms."""

ATTAINED = 0.99
START_PER_S = 8.0
SHARES = (1.0, 0.5, 0.25)
"""Of the largest rate: what a GPU costs that is not full."""

PROMPT_MEDIAN, ANSWER_MEDIAN, SPREAD, LONGEST = 400, 150, 0.8, 4096


def run(seed: int, progress: Callable[[float], None]) -> Iterator[Table]:
    largest: dict[str, float] = {}
    points = [(gpu, share) for gpu in GPUS for share in SHARES]
    return sweep(points, lambda point: _measure(*point, seed, largest), _table, progress)


def _measure(gpu: str, share: float, seed: int, largest: dict[str, float]) -> Row:
    if gpu not in largest:
        largest[gpu] = largest_rate(lambda rate: _attained(at(gpu, rate, seed)) >= ATTAINED, START_PER_S)
    rate = share * largest[gpu]
    summary = at(gpu, rate, seed) if rate else None
    cost = summary.usd_per_million_tokens if summary else None
    return {
        "GPU": gpu,
        "load": share,
        "requests/s": rate,
        "tokens/s": summary.output_tokens_per_s if summary else 0.0,
        "TTFT p99 s": (summary.ttft_s.p99 if summary else None) or 0.0,
        "TPOT p99 ms": 1000 * ((summary.tpot_s.p99 if summary else None) or 0.0),
        "level met": _attained(summary) if summary else 0.0,
        "USD/M": "-" if cost is None else cost,
    }


def at(gpu: str, rate: float, seed: int) -> Summary:
    draw = random.Random(seed)
    count = min(REQUESTS, max(200, round(rate * SECONDS)))
    lengths = lognormal(PROMPT_MEDIAN, ANSWER_MEDIAN, SPREAD, LONGEST)
    jobs = open_loop(poisson(rate, draw), lengths, count, draw)
    return serve(Deployment(model="llama-3-8b", gpu=gpu, level=LEVEL), jobs)


def _attained(summary: Summary) -> float:
    return summary.slo_attainment or 0.0


def _table(rows: list[Row]) -> Table:
    return Table(
        title="Capacity and cost, Llama-3-8B with vLLM's policy on one GPU",
        x_label="requests/s",
        y_label="USD per million output tokens",
        series=lines(rows, "GPU", "requests/s", "USD/M"),
        notes=(
            f"Workload: Poisson for {SECONDS:g} s, at least 200 and at most {REQUESTS:,} requests; prompts"
            f" and answers lognormal around {PROMPT_MEDIAN} and"
            f" {ANSWER_MEDIAN} tokens (spread {SPREAD}).",
            f"Level: {ATTAINED:.0%} of requests with TTFT <= {LEVEL.ttft_s:g} s and TPOT <="
            f" {1000 * (LEVEL.tpot_s or 0):g} ms, by bisection to 2 %.",
            "Agrees nearly: half the load costs 1.6 to 1.9 times as much a token, a quarter 2.7 to 3.8 times;"
            " less than double because a full run ends with a tail in which few are left.",
            "Which bound is reached first differs: TPOT on L4, L40S and A100, TTFT on the RTX 4090 (little"
            " memory"
            " beside the weights), H100 and H200. The L40S is cheapest a token, for list prices of 2024.",
            "RTX 4090 and H200 have no usual hourly price in the table, so no cost. Those"
            " of A100, L40S and L4 are"
            " from memory: --usd-per-hour of `simulate run` takes yours.",
        ),
        published=(
            "Chat: TTFT < 1 s, TPOT < 100 ms, more than 99 % of requests.",
            "Half the utilisation doubles the cost of a token.",
        ),
        rows=tuple(rows),
    )
