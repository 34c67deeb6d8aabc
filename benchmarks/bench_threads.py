"""Thread adaptation: decode speed with the adaptive count over the best fixed count.

Three states of the machine: quiet, one core kept busy by another program throughout, and that
program coming and going every two seconds. Fixed counts 1..cores and the adaptive one answer the
same 256 tokens in turn. Goal: at least 0.9 of the best fixed count in each.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bandwidth_model.machine import thread_counts, usable_cores
from benchmarks.record import arguments, recording
from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions
from localchat.weights import Catalog
from router.request import ChatRequest, Delta, Finished, Message, Sampling

LIMIT_S = 20.0
PROMPT = (Message("user", "Tell me a long story about a lighthouse keeper and the sea."),)
SPIN = """
import os
parent = os.getppid()
while os.getppid() == parent: pass
"""
COME_AND_GO = """
import os, time
parent = os.getppid()
while os.getppid() == parent:
    end = time.monotonic() + 2
    while time.monotonic() < end: pass
    time.sleep(2)
"""
STATES = {"quiet": None, "one core taken": SPIN, "one core taken every other 2 s": COME_AND_GO}


@contextmanager
def load(program: str | None) -> Iterator[None]:
    process = subprocess.Popen([sys.executable, "-c", program]) if program else None
    try:
        yield
    finally:
        if process:
            process.kill()
            process.wait()


async def rate(model: EngineModel, tokens: int) -> float:
    """Of ``tokens``, or of those that came within LIMIT_S: two threads on one core take minutes."""
    began = arrived = 0.0
    request = ChatRequest(PROMPT, Sampling(temperature=0.0, max_tokens=tokens))
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, Finished):
                return event.timings.decode_tokens_per_s
            if isinstance(event, Delta):
                now = time.monotonic()
                began, arrived = (began, arrived + len(event.scores)) if began else (now, 0.0)
                if now - began > LIMIT_S:
                    return arrived / (now - began)
    raise AssertionError("no Finished event")


async def rates(
    path: str, folder: str, repeats: int, tokens: int, program: str | None
) -> dict[str, list[float]]:
    """Tokens/s by way of choosing threads; "adaptive" among them."""
    models = {"adaptive": EngineModel("adaptive", LoadOptions(path, cache_folder=folder))}
    for count in thread_counts(usable_cores()):
        models[f"{count} fixed"] = EngineModel(str(count), LoadOptions(path, threads=count))
    found: dict[str, list[float]] = {name: [] for name in models}
    try:
        for model in models.values():
            await rate(model, 8)
        with load(program):
            for _ in range(repeats):
                for name, model in models.items():
                    found[name].append(await rate(model, tokens))
    finally:
        for model in models.values():
            await model.close()
    return found


def main() -> None:
    parser = arguments(__doc__, repeats=5)
    parser.add_argument("--tokens", type=int, default=256, metavar="N")
    args = parser.parse_args()
    with TemporaryDirectory() as folder, recording("threads", args) as record:
        weights = Catalog(models=Path(folder), cache=Path(folder)).find("default")
        for state, program in STATES.items():
            found = asyncio.run(rates(str(weights.path), folder, args.repeats, args.tokens, program))
            for name, values in found.items():
                record.row(f"{state}: {name}", values, "tokens/s")
            fixed = {name: statistics.median(values) for name, values in found.items() if name != "adaptive"}
            best = max(fixed, key=lambda name: fixed[name])
            ratio = statistics.median(found["adaptive"]) / fixed[best]
            record.row(f"{state}: adaptive ÷ best fixed", ratio, "", "≥ 0.9", f"best: {best}")


if __name__ == "__main__":
    main()
