"""Measures the engine on models of known shape, for the calibration.

Owns which models and depths tell the rates apart, and when a measurement counts. The
fit is bandwidth_model.calibrate's, the record is localchat.calibration's.

A shared machine's cores change speed by a quarter within seconds. So everything is measured
in short bursts, in rounds over all models, and the median of a cell's bursts counts.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bandwidth_model.calibrate import Run, prompt_of, run_of
from bandwidth_model.machine import OthersTime, available_bytes
from bandwidth_model.random_gguf import Geometry, write_random_gguf
from bandwidth_model.reading import read_shape
from bandwidth_model.shape import ModelShape
from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions, Measure

WIDE = Geometry(layers=5, hidden=2048, feed_forward=5632, heads=16, kv_heads=16)
"""Few but large matrices: what streaming weights costs."""
NARROW = Geometry(layers=24, hidden=1024, feed_forward=2816, heads=16, kv_heads=4)
"""Many smaller layers that still come from memory: what a layer costs."""
DEEP = 1528  # ends a step of keys (attention_cost.py): all threads have the same number


def attending(layers: int, heads: int, kv_heads: int, head_length: int) -> Geometry:
    """Hardly any weights: what a deep context costs."""
    return Geometry(layers, 256, 256, heads, kv_heads, head_length, vocabulary=1024, context=DEEP + 64)


ATTENDING = (
    attending(8, 16, 2, 64), attending(32, 4, 4, 64), attending(16, 8, 8, 64), attending(8, 16, 16, 64),
    attending(8, 16, 1, 128), attending(32, 2, 2, 128), attending(16, 4, 4, 128), attending(8, 8, 8, 128),
)  # fmt: skip
"""Many query heads to a cached one, which tell what a visit costs, and one to each at every stride that
has a cost of its own, with as much cache in all as no processor keeps between two tokens."""
SMALL = Geometry(layers=1, hidden=256, feed_forward=256, heads=4, kv_heads=1)
"""Next to nothing: what a token costs whatever the model."""
QUANTIZATIONS = ("Q4_0", "Q4_1", "Q5_0", "Q8_0", "Q4_K", "Q5_K", "Q6_K", "F16")

MEASURING_S = 34.0  # of bursts; making files, loading and filling caches come on top
ENOUGH_S = 55.0  # with these: no round begins later
LEAST_ROUNDS, PROMPT_ROUNDS = 3, 1
SHALLOW_BURSTS = 5  # before the cache is filled, which takes seconds
BURST_TOKENS = 6
PROMPT_TOKENS = 128
BUSY_CORES = 0.1  # of a core taken by others: the burst does not count
NEEDED_BYTES = 5 << 30  # with every subject loaded at once


@dataclass(frozen=True, slots=True)
class Subject:
    """A model and where it is measured."""

    name: str
    path: Path
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Burst:
    """Some tokens at one depth: ``token_s`` is the median. ``prompt_s``: of a prompt before, if any."""

    subject: str
    shape: ModelShape
    depth: int
    threads: int
    tokens: int
    token_s: float
    score_s: float
    others_cores: float
    prompt_tokens: int = 0
    prompt_s: float = 0.0

    @property
    def disturbed(self) -> bool:
        return self.others_cores > BUSY_CORES


async def measure_all(
    default: Path, thread_counts: Sequence[int], scratch: Path
) -> AsyncGenerator[Burst, None]:
    """Measure every subject. Raises RouterError when the engine fails, OSError when the disk is full."""
    os.makedirs(scratch, exist_ok=True)
    ends_s = time.monotonic() + ENOUGH_S
    with TemporaryDirectory(dir=scratch, prefix="calibrate-") as folder:
        subjects = _subjects(default, Path(folder))
        together = available_bytes() > NEEDED_BYTES
        groups = [subjects] if together else [[subject] for subject in subjects]
        for group in groups:
            async for burst in _rounds(group, thread_counts, MEASURING_S / len(groups), ends_s):
                yield burst


def _subjects(default: Path, folder: Path) -> list[Subject]:
    wide = {kind: _made(folder, kind, WIDE, kind) for kind in QUANTIZATIONS}
    return [
        Subject("default", default),
        Subject("default", default, 1536),
        Subject("narrow", _made(folder, "narrow", NARROW, "Q4_0")),
        *(_attending(folder, geometry) for geometry in ATTENDING),
        Subject("small", _made(folder, "small", SMALL, "Q8_0")),
        *(Subject(kind, path) for kind, path in wide.items()),
    ]


def _attending(folder: Path, g: Geometry) -> Subject:
    name = f"{g.heads} heads, {g.kv_heads} cached, of {g.head_length}"
    return Subject(name, _made(folder, name.replace(" ", "-").replace(",", ""), g, "Q8_0"), DEEP)


async def _rounds(
    subjects: Sequence[Subject], thread_counts: Sequence[int], seconds: float, ends_s: float
) -> AsyncGenerator[Burst, None]:
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(opened(each, max(thread_counts))) for each in subjects]
        loaded = await asyncio.gather(*opening)
        for one in loaded:  # one after the other: threads of several engines would wait for each other
            await one.burst(0, max(thread_counts), 1)
            for _ in range(SHALLOW_BURSTS if one.subject.depth else 0):
                for threads in thread_counts:
                    yield await one.burst(0, threads, BURST_TOKENS)
            await one.burst(one.subject.depth, max(thread_counts), 1)
        ends_s, turn = min(ends_s, time.monotonic() + seconds), 0
        while turn < LEAST_ROUNDS or time.monotonic() < ends_s:
            for one in loaded if turn % 2 == 0 else reversed(loaded):
                for threads in thread_counts:
                    prompt = PROMPT_TOKENS if turn < PROMPT_ROUNDS else 0
                    yield await one.burst(one.subject.depth, threads, BURST_TOKENS, prompt)
            turn += 1


class Loaded:
    """A subject whose engine runs."""

    def __init__(self, subject: Subject, model: EngineModel) -> None:
        self.subject, self._model = subject, model
        self.shape = read_shape(subject.path)
        self._others = OthersTime()

    async def burst(self, depth: int, threads: int, tokens: int, prompt_tokens: int = 0) -> Burst:
        """Measure now; a prompt ends at the depth or, when longer, begins at 0."""
        self._others()
        measured = await self._model.measure(Measure(depth, threads, tokens, prompt_tokens))
        return Burst(
            self.subject.name,
            self.shape,
            depth,
            threads,
            tokens,
            median(measured.token_s),
            measured.score_s,
            self._others(),
            prompt_tokens,
            measured.prefill_s,
        )


@asynccontextmanager
async def opened(subject: Subject, threads: int) -> AsyncGenerator[Loaded, None]:
    """Loads a subject, and closes it. Its first burst fills its context and is slow."""
    options = LoadOptions(str(subject.path), threads=threads, prefill_threads=threads)
    model = EngineModel(subject.name, options)
    try:
        async with aclosing(model.load()) as events:
            async for _ in events:
                pass
        yield Loaded(subject, model)
    finally:
        await model.close()


def _made(folder: Path, name: str, geometry: Geometry, quantization: str) -> Path:
    path = folder / f"random-{name}.gguf".lower()
    write_random_gguf(path, geometry, quantization)
    return path


def runs_of(bursts: Iterable[Burst]) -> list[Run]:
    """One run for each model, depth and thread count: the medians of its undisturbed bursts."""
    cells: dict[tuple[str, int, int], list[Burst]] = {}
    for burst in bursts:
        if not burst.disturbed:
            cells.setdefault((burst.shape.identity, burst.depth, burst.threads), []).append(burst)
    return [_run(cell) for cell in cells.values()]


def _run(cell: Sequence[Burst]) -> Run:
    first, prompts = cell[0], [burst.prompt_s for burst in cell if burst.prompt_tokens]
    start = max(0, first.depth - PROMPT_TOKENS)
    return run_of(
        first.shape,
        threads=first.threads,
        depth=first.depth + first.tokens / 2,
        token_s=median(burst.token_s for burst in cell),
        score_s=median(burst.score_s for burst in cell),
        prompt=prompt_of(first.shape, PROMPT_TOKENS, start, median(prompts)) if prompts else None,
    )
