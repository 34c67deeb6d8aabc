"""Loads a model in the worker: native runtime, thread counts, generator.

Owns what is measured on first use and the file that keeps it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bandwidth_model.machine import IdleCores, available_bytes, thread_counts, usable_cores
from localchat.engines.generate import Generator
from localchat.engines.llama_cpp import LlamaRuntime
from localchat.engines.protocol import LoadOptions
from localchat.engines.runtime import Aborted, LoadFailed
from localchat.engines.threads import ThreadTuner, median
from router.request import Event, Progress

MEASURED_TOKENS = 8  # per thread count, after two that warm up
SPARE_BYTES = 256 << 20  # compute buffers and this process itself

Report = Callable[[Event], bool]
"""Takes an event, says whether to go on."""


@dataclass(slots=True)
class Engine:
    """A loaded model."""

    runtime: LlamaRuntime
    generator: Generator
    decode: ThreadTuner
    prefill: ThreadTuner
    known: KnownThreads | None  # None: the count was given
    facts: dict[str, Any]

    def learn(self) -> None:
        """Keep a higher thread count that paid: the first measurement met a busy machine."""
        if self.known and self.known.best and self.decode.settled > self.known.best:
            self.known.keep(self.decode.settled)

    def info(self) -> dict[str, Any]:
        """The fields of ModelInfo but for the name."""
        threads = {"decode_threads": self.decode.count, "prefill_threads": self.prefill.count}
        return {**self.facts, **threads, "engine": "llama_cpp"}


def load_engine(options: LoadOptions, report: Report) -> Engine:
    """Raises LoadFailed with a reason, Aborted when ``report`` said to stop."""
    _check_memory(options.path)
    last = 0.0

    def on_progress(fraction: float) -> bool:
        nonlocal last
        if fraction < 1.0 and time.monotonic() - last < 0.1:
            return True
        last = time.monotonic()
        return report(Progress("load", fraction, 1.0, "fraction"))

    runtime = LlamaRuntime(options, on_progress)
    _fit_window(runtime)
    cores = usable_cores()
    counts = (options.threads,) if options.threads else thread_counts(cores)
    known = KnownThreads(runtime, options, counts) if len(counts) > 1 else None
    best = counts[0]
    if known:
        best = known.best or _measure(runtime, counts, report)
        known.keep(best)
    prefill_counts = (options.prefill_threads,) if options.prefill_threads else thread_counts(cores)
    decode = ThreadTuner(counts, best, IdleCores())
    prefill = ThreadTuner(prefill_counts, prefill_counts[-1], IdleCores())
    runtime.set_threads(decode.count, prefill.count)
    generator = Generator(runtime, runtime.vocabulary_size, decode, prefill)
    return Engine(runtime, generator, decode, prefill, known, runtime.describe())


# -- memory


def _check_memory(path: str) -> None:
    try:
        size = os.stat(path).st_size
    except OSError as error:
        raise LoadFailed(f"the file cannot be opened: {error.strerror}") from error
    free = available_bytes()
    if size > free:
        raise LoadFailed(f"the file is {size / 1e9:.2f} GB and {free / 1e9:.2f} GB of memory are available")


def _fit_window(runtime: LlamaRuntime) -> None:
    """Make the window no larger than the KV cache that memory can hold."""
    per_token = runtime.kv_bytes_per_token()
    if per_token:
        room = max(512, (available_bytes() - SPARE_BYTES) // per_token)
        runtime.window_tokens = min(runtime.window_tokens, room)


# -- threads


class KnownThreads:
    """The decode thread count measured for a build, machine and file, kept in a small cache file."""

    def __init__(self, runtime: LlamaRuntime, options: LoadOptions, counts: Sequence[int]) -> None:
        self._file = Path(options.cache_folder) / "threads.json" if options.cache_folder else None
        size = os.path.getsize(options.path)
        self._key = f"{runtime.build()}|{size}|{options.gpu_layers}|{tuple(counts)}"
        best = self._read().get(self._key)
        self.best: int | None = best if best in counts else None

    def keep(self, best: int) -> None:
        """Does nothing when it is known already; a folder that cannot be written is no error."""
        if self._file is None or best == self.best:
            return
        self.best = best
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            part = self._file.with_suffix(f".{os.getpid()}")
            part.write_text(json.dumps({**self._read(), self._key: best}, indent=1))
            part.replace(self._file)
        except OSError:
            pass  # measured again next time

    def _read(self) -> dict[str, Any]:
        try:
            known = json.loads(self._file.read_text()) if self._file else {}
        except (OSError, ValueError):
            return {}  # a cache: measuring again is the repair
        return known if isinstance(known, dict) else {}


def _measure(runtime: LlamaRuntime, counts: Sequence[int], report: Report) -> int:
    """The count with the lowest median time a token; fewer threads win a near tie."""
    token = runtime.tokenize("a", special=False, start=True)[:1]
    medians: dict[int, float] = {}
    for number, count in enumerate(counts):
        if not report(Progress("measure", number, len(counts), "fraction")):
            raise Aborted
        runtime.set_threads(count, count)
        times = [_timed_eval(runtime, token) for _ in range(MEASURED_TOKENS + 2)][2:]
        runtime.keep(0)
        medians[count] = median(times)
        if medians[count] > 1.5 * min(medians.values()):
            break  # more threads only get worse from here
    fastest = min(medians.values())
    return min(count for count, time_s in medians.items() if time_s <= 1.03 * fastest)


def _timed_eval(runtime: LlamaRuntime, tokens: list[int]) -> float:
    started = time.perf_counter()
    runtime.eval(tokens)
    return time.perf_counter() - started
