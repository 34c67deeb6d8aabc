"""Constrained generation against free answers that are asked again, by how many come out invalid.

Owns the workload and the costs of masks that are compared: answers of the same lengths, once
all there at the start (throughput, cost) and once at a rate that does not fill the GPU (latency).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from router.simcloud.additions import NONE, Additions
from router.simcloud.deployment import Deployment, build
from router.simcloud.host import masks
from router.simcloud.retries import Retries, ValidSummary
from router.simcloud.studies.sweep import Row, sweep
from router.simcloud.studies.table import Series, Table
from router.simcloud.workload import lognormal, open_loop, poisson

NAME = "constrained"
SUMMARY = "masks of a grammar against retries of invalid answers: valid answers/s and for a dollar"

RETRY_RATES = (0.0, 0.1, 0.2, 0.3)
REQUESTS = 400
CALM_PER_S = 2.0
PROMPT_MEDIAN, ANSWER_MEDIAN, SPREAD, LONGEST = 300, 150, 0.5, 2048
MASKS = {
    "masks 50 us, beside": Additions(masks=masks()),
    "masks 50 us, series": Additions(masks=masks(overlapped=False)),
    "masks 1 ms, series": Additions(masks=masks(1e-3, overlapped=False)),
    "masks 1 ms, 16 cores": Additions(masks=masks(1e-3, 16, overlapped=False)),
}
FREE = "free, asked again"

PUBLISHED = (
    "Free answers are asked again in 10-30 % of cases; constrained ones are 100 % valid, without retries.",
    "llguidance's README: about 50 us of CPU for a mask over 128k tokens.",
)


def run(seed: int, progress: Callable[[float], None]) -> Iterator[Table]:
    points = [(FREE, rate) for rate in RETRY_RATES] + [(label, 0.0) for label in MASKS]
    return sweep(points, lambda point: _measure(*point, seed), _table, progress)


def _measure(label: str, rate: float, seed: int) -> Row:
    additions = MASKS.get(label, NONE)
    full, calm = (serve(additions, rate, per_s, seed) for per_s in (1e6, CALM_PER_S))
    return _row(label, rate, full, calm)


def _table(rows: list[Row]) -> Table:
    return Table(
        title="Constrained generation against retries",
        x_label="share of free answers that are invalid, %",
        y_label="valid answers/s",
        series=_lines(rows),
        notes=(
            f"Llama-3-8B, A100, vLLM; {REQUESTS} requests, log-normal, medians {PROMPT_MEDIAN} +"
            f" {ANSWER_MEDIAN} tokens; a try again has the length of the first and finds its prompt cached.",
            f"Throughput with all there at the start, the last retries included; latency at {CALM_PER_S:g}"
            " requests/s.",
            "Agrees: 30 % invalid answers cost 36 % of the valid ones and 43 % more time until valid; masks"
            " cost nothing of either.",
            "Masks beside the GPU cost nothing until a batch's masks together take longer than its step.",
        ),
        published=PUBLISHED,
        rows=tuple(rows),
    )


def serve(additions: Additions, retry_rate: float, per_s: float, seed: int) -> ValidSummary:
    parts = build(Deployment(additions=additions, options={"max_sequences": 128}))
    draw = random.Random(seed)
    lengths = lognormal(PROMPT_MEDIAN, ANSWER_MEDIAN, SPREAD, LONGEST)
    retries = Retries(retry_rate, seed=seed)
    retries.over(parts.engine, open_loop(poisson(per_s, draw), lengths, REQUESTS, draw)).run()
    return retries.summary(parts.recorder.summary(), parts.recorder.usd_per_hour)


def _row(label: str, rate: float, full: ValidSummary, calm: ValidSummary) -> Row:
    return {
        "answers": label,
        "invalid, %": round(100 * rate),
        "tries": round(full.tries_per_answer, 3),
        "valid/s": round(full.valid_per_s, 2),
        "valid/USD": round(full.valid_per_usd or 0.0),
        "valid s": round(calm.latency_s.mean or 0.0, 3),
        "p99 s": round(calm.latency_s.p99 or 0.0, 3),
    }


def _lines(rows: list[Row]) -> tuple[Series, ...]:
    """Masks are level lines across the shares of invalid answers."""
    asked = [row for row in rows if row["answers"] == FREE]
    across = tuple(float(row["invalid, %"]) for row in asked)
    free = tuple(float(row["valid/s"]) for row in asked)
    level = [
        Series(str(row["answers"]), across, (float(row["valid/s"]),) * len(across))
        for row in rows
        if row["answers"] != FREE
    ]
    return (Series(FREE, across, free), *level)
