"""Loads a model in the worker: native runtime, thread counts, generator.

Owns what is measured on first use and the file that keeps it.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localchat.engines.generate import Generator
from localchat.engines.llama_cpp import LlamaRuntime
from localchat.engines.runtime import LoadFailed, LoadOptions
from localchat.engines.threads import ThreadTuner, candidates
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
    facts: dict[str, Any]

    @property
    def info(self) -> dict[str, Any]:
        return self.current_info()

    def current_info(self) -> dict[str, Any]:
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
    counts = (options.threads,) if options.threads else candidates(cores)
    best = options.threads or _best_threads(runtime, options, counts, report)
    prefill_counts = (options.prefill_threads,) if options.prefill_threads else candidates(cores)
    decode, prefill = ThreadTuner(counts, best), ThreadTuner(prefill_counts, prefill_counts[-1])
    runtime.set_threads(decode.count, prefill.count)
    generator = Generator(runtime, runtime.vocabulary_size, decode, prefill)
    return Engine(runtime, generator, decode, prefill, runtime.describe())


def usable_cores() -> int:
    """Cores this process may use: affinity and the container's quota respected."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        return max(1, min(cores, round(int(quota) / int(period))))
    except (OSError, ValueError):
        return cores


# -- memory


def available_bytes() -> int:
    """Memory a new program can have without swapping, the container's limit respected."""
    import psutil

    free = int(psutil.virtual_memory().available)
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        return min(free, max(0, limit - used))
    except (OSError, ValueError):
        return free


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


def _best_threads(runtime: LlamaRuntime, options: LoadOptions, counts: Sequence[int], report: Report) -> int:
    if len(counts) == 1:
        return counts[0]
    key = f"{runtime.build()}|{os.path.getsize(options.path)}|{options.gpu_layers}|{counts}"
    file = Path(options.cache_folder) / "threads.json" if options.cache_folder else None
    known = _read_known(file)
    if known.get(key) in counts:
        return int(known[key])
    best = _measure(runtime, counts, report)
    if file:
        _write_known(file, {**known, key: best})
    return best


def _measure(runtime: LlamaRuntime, counts: Sequence[int], report: Report) -> int:
    """The count with the lowest median time a token; fewer threads win a near tie."""
    token = runtime.tokenize("a", special=False, start=True)[:1]
    medians: dict[int, float] = {}
    for number, count in enumerate(counts):
        report(Progress("measure", number, len(counts), "fraction"))
        runtime.set_threads(count, count)
        times = [_timed_eval(runtime, token) for _ in range(MEASURED_TOKENS + 2)][2:]
        runtime.keep(0)
        medians[count] = statistics.median(times)
        if medians[count] > 1.5 * min(medians.values()):
            break  # more threads only get worse from here
    fastest = min(medians.values())
    return min(count for count, median in medians.items() if median <= 1.03 * fastest)


def _timed_eval(runtime: LlamaRuntime, tokens: list[int]) -> float:
    started = time.perf_counter()
    runtime.eval(tokens)
    return time.perf_counter() - started


def _read_known(file: Path | None) -> dict[str, Any]:
    try:
        known = json.loads(file.read_text()) if file else {}
        return known if isinstance(known, dict) else {}
    except (OSError, ValueError):
        return {}  # a cache: measuring again is the repair


def _write_known(file: Path, known: dict[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(known, indent=1))
        part.replace(file)
    except OSError:
        pass  # measured again next time
