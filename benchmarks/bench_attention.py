"""What a context costs, by geometry of heads: measured, and by the formula of attention_cost.py.

Models of next to no weights at depths 0, 1,024 and 4,096 with one thread and with all: nanoseconds for each
token of context, layer and query head. The formula is fitted to some geometries at 1,024 alone; the others,
and all at 4,096, are predicted. Goal of the error: a real model spends about half its time on attention at
4,096, so that twice its 12 % may be off here, 9 times in 10.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from bandwidth_model.attention_cost import seconds
from bandwidth_model.calibrate import Run, fit, run_of
from bandwidth_model.machine import usable_cores
from bandwidth_model.random_gguf import Geometry, write_random_gguf
from benchmarks.record import Record, arguments, recording
from localchat.calibrating import Subject, opened

DEPTHS = (0, 1024, 4096)
FITTED_DEPTH = 1024
LAYERS, BURSTS, TOKENS = 8, 5, 6
Heads = tuple[int, int, int]  # query heads, cached heads, length

FITTED: tuple[Heads, ...] = (
    (8, 1, 128), (16, 4, 128), (8, 8, 128), (16, 2, 64), (16, 8, 64), (16, 16, 64),
)  # fmt: skip
OTHERS: tuple[Heads, ...] = ((16, 2, 128), (24, 2, 128), (16, 8, 128), (24, 6, 64), (24, 6, 128))


async def measured(heads: Heads, folder: Path) -> list[Run]:
    path = folder / "attention.gguf"
    write_random_gguf(path, Geometry(LAYERS, 256, 256, *heads, vocabulary=1024), "Q8_0")
    runs = []
    async with opened(Subject(words(heads), path), usable_cores()) as loaded:
        for depth in DEPTHS:
            await loaded.burst(depth, usable_cores(), 1)  # fills the cache
            for threads in sorted({1, usable_cores()}):
                token_s = [(await loaded.burst(depth, threads, TOKENS)).token_s for _ in range(BURSTS)]
                at = depth + TOKENS / 2
                runs.append(run_of(loaded.shape, threads=threads, depth=at, token_s=median(token_s)))
    return runs


def words(heads: Heads) -> str:
    return "{}/{} heads of {}".format(*heads)


def report(record: Record, found: dict[Heads, list[Run]], threads: int) -> None:
    fitted = [run for heads in FITTED for run in found[heads] if run.depth < FITTED_DEPTH + TOKENS]
    costs = fit(fitted, threads).attention
    errors = []
    for heads, runs in found.items():
        shallow, *deep = (run for run in runs if run.threads == threads)
        for run in deep:
            expected_s = shallow.token_s + seconds(run.attention, costs) - seconds(shallow.attention, costs)
            known = heads in FITTED and run in fitted
            error = 100 * (expected_s / run.token_s - 1)
            visits = heads[0] * LAYERS * run.depth
            note = f"{'fitted' if known else 'predicted'} {error:+.0f} %"
            label = f"{words(heads)}, depth {run.depth:,.0f}, {threads} thread{'s' * (threads > 1)}"
            record.row(label, 1e9 * (run.token_s - shallow.token_s) / visits, "ns", note=note)
            if not known:
                errors.append(abs(error))
    record.row(f"predicted, {threads} thread{'s' * (threads > 1)}: median error", median(errors), "%")
    record.row("  90 % quantile", quantiles(errors, n=10, method="inclusive")[-1], "%", "≤ 24")


async def collect(kinds: Sequence[Heads], folder: Path) -> dict[Heads, list[Run]]:
    return {heads: await measured(heads, folder) for heads in kinds}


def main() -> None:
    args = arguments(__doc__, repeats=1).parse_args()
    with TemporaryDirectory() as folder, recording("attention", args) as record:
        found = asyncio.run(collect([*FITTED, *OTHERS], Path(folder)))
        for threads in sorted({1, usable_cores()}):
            report(record, found, threads)


if __name__ == "__main__":
    main()
