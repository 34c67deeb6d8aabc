"""What many adapters over one model cost, mixed in batches or one after another."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from router.simcloud.deployment import Deployment, build
from router.simcloud.llm import find_llm
from router.simcloud.loop import Loop
from router.simcloud.lora import Lora, adapter_bytes, with_adapters
from router.simcloud.studies.sweep import Row, lines, sweep
from router.simcloud.studies.table import Table
from router.simcloud.workload import lognormal, open_loop, poisson

NAME = "lora"
SUMMARY = "throughput by the number of adapters: mixed batches, overlapped loads, one at a time"

MODEL, RANK, REQUESTS, RATE = "llama-2-7b", 16, 400, 12.0
COUNTS = (1, 5, 20, 100, 500)
WAYS = {
    "mixed, 32 a step": (32, False),
    "mixed, loads overlapped": (32, True),
    "one adapter a step": (1, False),
}


def run(seed: int, progress: Callable[[float], None]) -> Iterator[Table]:
    points = [(count, label) for count in COUNTS for label in WAYS]
    return sweep(points, lambda point: _measure(*point, seed), _table, progress)


def _measure(count: int, way: str, seed: int) -> Row:
    most, overlapped = WAYS[way]
    size = adapter_bytes(find_llm(MODEL), RANK)
    parts = build(Deployment(MODEL, lora=Lora(size, most, overlapped=overlapped)))
    draw = random.Random(seed)
    jobs = open_loop(poisson(RATE, draw), lognormal(256, 128, 0.7, 1024), REQUESTS, draw)
    Loop([parts.engine], with_adapters(jobs, _names(count, random.Random(seed + 1)))).run()
    found, adapters = parts.recorder.summary(), parts.engine.state.adapters
    return {
        "way": way,
        "adapters": float(count),
        "requests/s": found.completed / found.makespan_s,
        "TTFT s": found.ttft_s.mean or 0.0,
        "TPOT ms": 1000 * (found.tpot_s.mean or 0.0),
        "loads": float(adapters.cold if adapters else 0),
        "loading s": adapters.load_s if adapters else 0.0,
    }


def _table(rows: list[Row]) -> Table:
    size = adapter_bytes(find_llm(MODEL), RANK)
    return Table(
        "Many adapters over Llama-2-7B on an A100",
        "adapters",
        "requests/s",
        lines(rows, "way", "adapters", "requests/s"),
        (
            f"{REQUESTS} Poisson requests at {RATE:g}/s, prompts of 256, answers of 128 tokens in the"
            f" median, adapters of rank {RANK} ({size / 1e6:.0f} MB) drawn by Zipf, PCIe at 25 GB/s.",
            "Agrees: mixed batches lose 9 % from 1 to 500 adapters, one adapter a step 90"
            " %: 7 times at 100, 9"
            " times at 500. Published factors are against other systems and loads.",
            "Overlapping a load with the step hardly matters: 80 MB take 3 ms, and popular adapters stay.",
        ),
        (
            "S-LoRA: 4x the throughput of vLLM.",
            "Punica: 12x over systems that batch one adapter at a time. Its +2 ms a token is used here.",
        ),
        tuple(rows),
    )


def _names(count: int, draw: random.Random) -> Iterator[str]:
    weights = [1 / (rank + 1) for rank in range(count)]
    while True:
        yield f"adapter-{draw.choices(range(count), weights)[0]}"
