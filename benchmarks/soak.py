"""Hours of use in one sitting: memory of both processes must stay flat, and idle must cost nothing.

Runs turns of a real conversation with the default model through the session and its store, a new
conversation every 20 turns, an edit or a stop now and then. Prints memory every minute; at the end
the growth over the second half, which a leak would show.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from benchmarks.record import Record, arguments, recording
from localchat.compose import Program, build
from localchat.engines.process import EngineModel
from localchat.paths import Paths
from localchat.settings import Settings
from router.request import Delta

QUESTIONS = ("Tell me about the sea.", "And then?", "Why?", "Say it in one sentence.", "Give an example.")
TURNS_PER_CONVERSATION = 20


async def one_turn(program: Program, chance: random.Random) -> None:
    """Mostly a message; sometimes answered again, sometimes stopped after some text."""
    session = program.session
    stop_after = chance.choice((0, 0, 0, 5))
    again = session.leaf_id if session.leaf_id is not None and chance.random() < 0.2 else None
    turn = session.regenerate(again) if again is not None else session.send(chance.choice(QUESTIONS))
    seen = 0
    async with aclosing(turn) as events:
        async for event in events:
            seen += isinstance(event, Delta)
            if stop_after and seen >= stop_after:
                break


def resident_mib(program: Program) -> tuple[float, float]:
    """Of this process and of the engine."""
    model = program.model
    assert isinstance(model, EngineModel)
    assert model.pid is not None
    sizes = (psutil.Process().memory_info().rss, psutil.Process(model.pid).memory_info().rss)
    return sizes[0] / 2**20, sizes[1] / 2**20


async def sit(program: Program, minutes: float, record: Record) -> None:
    chance, ends = random.Random(1), time.monotonic() + 60 * minutes
    sizes: list[tuple[float, float]] = []
    turns, told = 0, 0.0
    while time.monotonic() < ends:
        if turns % TURNS_PER_CONVERSATION == 0:
            program.session.start_new()
        await one_turn(program, chance)
        turns += 1
        sizes.append(resident_mib(program))
        if time.monotonic() - told > 60:
            told = time.monotonic()
            print(f"{turns:6} turns  app {sizes[-1][0]:.0f} MiB  engine {sizes[-1][1]:.0f} MiB", flush=True)
    quarter = max(1, len(sizes) // 4)
    record.row("turns", turns)
    for name, column in (("app", 0), ("engine", 1)):
        values = [size[column] for size in sizes]
        middle, last = values[len(values) // 2 :][:quarter], values[-quarter:]
        growth = statistics.median(last) - statistics.median(middle)
        record.row(f"{name}: growth from the third to the last quarter", growth, "MiB", "≤ 8")
    before = time.process_time()
    await asyncio.sleep(10)
    record.row("idle after it", 100 * (time.process_time() - before) / 10, "% of a core", "≤ 0.5")


async def run(minutes: float, record: Record) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        settings = Settings(sampling=replace(Settings().sampling, max_tokens=60))
        program = build(settings, Paths(root, root, root))
        try:
            await sit(program, minutes, record)
        finally:
            await program.close()


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--minutes", type=float, default=60.0)
    args = parser.parse_args()
    with recording("soak", args) as record:
        asyncio.run(run(args.minutes, record))


if __name__ == "__main__":
    main()
