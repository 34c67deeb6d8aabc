"""Who goes first, when short and long requests are mixed: arrival, shortest first, priority.

Owns the workload, the orders compared and what is said of the outcome.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from router.simcloud.deployment import Deployment
from router.simcloud.ordering import noisy, oracle, predicted
from router.simcloud.quantiles import Quantiles
from router.simcloud.request import Completed, Job, Rejected, Request
from router.simcloud.studies.preemption import PCIE_4_BYTES_PER_S
from router.simcloud.studies.sweep import Row, lines, serve, sweep
from router.simcloud.studies.table import Table
from router.simcloud.workload import poisson

NAME = "schedulers"
SUMMARY = "first come, shortest first (oracle and predicted), priority, token budget: mixed lengths"

REQUESTS = 1500
RATES = (4.0, 6.0, 8.0)
ORDERS = ("fcfs", "sjf oracle", "sjf predicted", "priority swap", "priority", "in flight")
SEQUENCES = 16
LONG_SHARE = 0.05
SHORT, LONG = ((50, 300), (20, 200)), ((6_000, 10_000), (800, 1_500))
"""Prompt and answer tokens of the two kinds, drawn evenly."""

PREDICTION_SPREAD = 0.5
TOKENS_IN_FLIGHT = 60_000
BOUND = 2_048


def run(seed: int, progress: Callable[[float], None]) -> Iterator[Table]:
    points = [(rate, order) for rate in RATES for order in ORDERS]
    return sweep(points, lambda point: _measure(*point, seed), _table, progress)


def requests(rate: float, seed: int) -> Iterator[Job]:
    """Short ones are urgent (priority 0), long ones are not."""
    draw = random.Random(seed)
    for number, at_s in zip(range(REQUESTS), poisson(rate, draw), strict=False):
        is_long = draw.random() < LONG_SHARE
        prompt, answer = (draw.randint(*between) for between in (LONG if is_long else SHORT))
        yield Job(Request(number, at_s, prompt, BOUND, priority=int(is_long)), answer)


def _measure(rate: float, order: str, seed: int) -> Row:
    jobs = requests(rate, seed)
    options: dict[str, object] = {"max_sequences": SEQUENCES, "order": order.partition(" ")[0]}
    match order:
        case "sjf oracle":
            jobs = predicted(jobs, oracle)
        case "sjf predicted":
            jobs = predicted(jobs, noisy(PREDICTION_SPREAD, seed))
        case "in flight":
            options |= {"order": "fcfs", "tokens_in_flight": TOKENS_IN_FLIGHT}
    short_s, long_s = Quantiles(), Quantiles()

    def each(outcome: Completed | Rejected) -> None:
        if isinstance(outcome, Completed):
            (long_s if outcome.request.priority else short_s).add(outcome.e2e_s)

    link = PCIE_4_BYTES_PER_S if order == "priority swap" else None
    deployment = Deployment(model="llama-3.1-8b", gpu="a100", policy="vllm", options=options)
    summary = serve(replace(deployment, prefix_cache=False, swap_bytes_per_s=link), jobs, each)
    return {
        "rate/s": rate,
        "order": order,
        "mean s": summary.e2e_s.mean or 0.0,
        "short s": short_s.mean or 0.0,
        "short p99": short_s.at([0.99])[0] or 0.0,
        "long s": long_s.mean or 0.0,
        "long p99": long_s.at([0.99])[0] or 0.0,
        "preempts": summary.preemptions,
    }


def _words(kind: tuple[tuple[int, int], tuple[int, int]]) -> str:
    (least, most), (shortest, longest) = kind
    return f"prompts of {least} to {most} and answers of {shortest} to {longest} tokens"


def _table(rows: list[Row]) -> Table:
    return Table(
        title=f"Order of the queue, Llama-3.1-8B on an A100, {SEQUENCES} at a time",
        x_label="requests/s",
        y_label="mean seconds end to end, short requests",
        series=lines(rows, "order", "rate/s", "short s"),
        notes=(
            f"Workload: {REQUESTS} requests, Poisson, {LONG_SHARE:.0%} long. Short: {_words(SHORT)}; long:"
            f" {_words(LONG)}. All are bounded by {BOUND} tokens, short ones are urgent. Predicted lengths"
            " are off"
            f" by a factor with spread {PREDICTION_SPREAD}; in flight: {TOKENS_IN_FLIGHT:,} tokens;"
            " priority swap:"
            " preempted KV waits in CPU memory.",
            "Agrees: at 6 requests/s shortest first has a quarter of the mean of first come, at the price"
            " of a"
            " long p99 four times as long; a rough prediction does nearly as well as the true length.",
            "Agrees: with priority the urgent ones hardly wait and the others pay. Recomputing 10,000"
            " tokens each"
            " time makes preemption a loss at 4 requests/s even for the urgent; swapping mends that in part.",
            "A budget of tokens in flight counts bounds, so it holds back more than memory does.",
        ),
        published=(
            "First come, first served: a 10,000-token job holds up those behind it.",
            "Shortest first: the least mean latency, but long jobs can starve.",
            "Priority: urgent ones preempt, at the others' cost.",
        ),
        rows=tuple(rows),
    )
