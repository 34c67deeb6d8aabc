"""Measures this machine: how fast it reads memory and cache by threads, and multiplies.

Owns the measuring loops: NumPy reductions only read, and release the interpreter lock, so
that threads share the memory bus as an engine's do. Does not know engines or models. A
process of its own, which probe.py starts: a gigabyte of arrays ends with it. Prints JSON lines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from statistics import median

import numpy as np
import numpy.typing as npt

from bandwidth_model.machine import available_bytes, last_level_cache_bytes, thread_counts, usable_cores
from bandwidth_model.probe import Reading, What

Floats = npt.NDArray[np.float32]

CACHES = 4  # an array this many times the last-level cache is read from memory
LEAST_BYTES, MOST_BYTES = 256 << 20, 4 << 30  # of the arrays of all threads together
CACHE_SHARE = 0.25  # of the last-level cache: what other programs leave of it
PASSES = 7
CACHE_REPEATS = 30  # in a pass: one alone would be over before the threads have met
MATRIX = 768  # three of these squares are 7 MB
KNEE = 1.03  # more threads that gain less than this, twice, end the sweep


def sweep(counts: Sequence[int], read: Callable[[int], Reading]) -> Iterator[Reading]:
    """Readings by threads until more threads gain nothing twice in a row."""
    best, without_gain = 0.0, 0
    for count in counts:
        reading = read(count)
        yield reading
        without_gain = 0 if reading.best > KNEE * best else without_gain + 1
        best = max(best, reading.best)
        if without_gain == 2:
            return


def read_memory(threads: int, total_bytes: int, passes: int = PASSES) -> Reading:
    """Plain reads of arrays of ``total_bytes`` together, each touched first by its own thread."""
    with ThreadPoolExecutor(threads) as pool:
        arrays = list(pool.map(_filled, [total_bytes // threads // 4] * threads))
        timed = [_together(pool, arrays, _summed) for _ in range(passes)]
    return _reading("memory", threads, total_bytes, timed)


def read_cache(nbytes: int) -> Reading:
    """One thread reading an array that stays in the cache."""
    with ThreadPoolExecutor(1) as pool:
        arrays = list(pool.map(_filled, [nbytes // 4]))
        timed = [_together(pool, arrays, _summed_often) for _ in range(PASSES)]
    return _reading("cache", 1, nbytes * CACHE_REPEATS, timed, nbytes)


def multiply(threads: int, passes: int = PASSES) -> Reading:
    """FP32 operations a second of matrix products, one a thread."""
    with ThreadPoolExecutor(threads) as pool:
        arrays = list(pool.map(_filled, [MATRIX * MATRIX] * threads))
        timed = [_together(pool, arrays, _squared) for _ in range(passes)]
    return _reading("multiply", threads, 2 * MATRIX**3 * threads, timed)


def array_bytes() -> int:
    """How much is read at a time: several caches, and not what others need of the memory."""
    wanted = max(LEAST_BYTES, CACHES * last_level_cache_bytes())
    return min(wanted, MOST_BYTES, max(64 << 20, available_bytes() // 4))


def _filled(count: int) -> Floats:
    return np.ones(count, np.float32)


def _summed(array: Floats) -> float:
    """Processor seconds of a reduction, which reads and does not write."""
    began = time.thread_time()
    np.maximum.reduce(array)
    return time.thread_time() - began


def _summed_often(array: Floats) -> float:
    return sum(_summed(array) for _ in range(CACHE_REPEATS))


def _squared(array: Floats) -> float:
    square = array.reshape(MATRIX, MATRIX)
    began = time.thread_time()
    np.dot(square, square)
    return time.thread_time() - began


def _together(
    pool: ThreadPoolExecutor, arrays: Sequence[Floats], work: Callable[[Floats], float]
) -> tuple[float, float]:
    """Wall and processor seconds of one pass of all threads."""
    began = time.perf_counter()
    spent = sum(pool.map(work, arrays))
    return time.perf_counter() - began, spent / len(arrays)


def _reading(
    of: What, threads: int, amount: float, timed: Sequence[tuple[float, float]], array_bytes: int = 0
) -> Reading:
    wall, spent = min(timed)
    usual = amount / median(each for each, _ in timed)
    return Reading(of, threads, amount / wall, usual, min(1.0, spent / wall), array_bytes)


def main() -> None:
    """Each reading as a line of JSON as soon as it is known."""
    cores = usable_cores()
    for reading in sweep(thread_counts(cores), lambda n: read_memory(n, array_bytes())):
        _say(reading)
    if cache_bytes := int(CACHE_SHARE * last_level_cache_bytes()):
        _say(read_cache(cache_bytes))
    for count in sorted({1, cores}):
        _say(multiply(count))


def _say(reading: Reading) -> None:
    print(json.dumps(asdict(reading)), flush=True)


if __name__ == "__main__":
    main()
