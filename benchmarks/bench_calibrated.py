"""Predicted against measured decode speed on this machine, after `localchat calibrate`, on held-out models.

Models of random weights that the calibration never saw (0.1 to 3 billion parameters, seven quantisations,
shapes drawn by --seed: held_out.py) at depths 0 to 4096 with one thread and with all. Each is predicted
before it is loaded; then again with what its own first reply taught, against what was measured afterwards.
Goals: median error at most 5 %, 90 % quantile at most 12 %; after the first reply at most 3 %. Beside them
what other rules say, given this machine's probe.
The same cells are measured twice, minutes apart: how far the two differ is what no prediction can beat.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from os import environ
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory

from bandwidth_model.calibrate import own_run, run_of
from bandwidth_model.machine import usable_cores
from bandwidth_model.predict import Conditions, predict
from bandwidth_model.probe import probe_of, run_probe
from bandwidth_model.random_gguf import write_random_gguf
from bandwidth_model.rates import Rates, adjusted
from bandwidth_model.shape import ModelShape
from benchmarks.held_out import HeldOut, held_out
from benchmarks.peers import LLMFIT, THUMB
from benchmarks.record import Record, arguments, recording
from localchat.calibrating import Loaded, Subject, opened
from localchat.paths import Paths
from localchat.speed import MachineSpeed

DEPTHS = (0, 1024, 4096)
REPLIES = (0, 1024)  # depths of a first reply
TOKENS = 8  # of a burst
BURSTS = 5

SEED = 20261130
"""The models of it were predicted before anybody looked at them; a change made after that takes another."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One model at one depth and thread count: measured twice, rates in tokens/s."""

    model: str
    shape: ModelShape
    depth: int
    threads: int
    first: float
    second: float
    predicted: float
    after_reply: float  # of depth 0
    after_deep_reply: float  # of depth 1024
    low: float
    high: float

    @property
    def measured(self) -> float:
        return (self.first + self.second) / 2


def error_percent(predicted: float, measured: float) -> float:
    return 100 * abs(predicted / measured - 1)


async def cells(models: Sequence[HeldOut], speed: MachineSpeed, folder: Path) -> AsyncIterator[Cell]:
    for model in models:
        path = folder / "held-out.gguf"
        write_random_gguf(path, model.geometry, model.quantization, head=model.head, seed=1)
        async with opened(Subject(model.name, path), usable_cores()) as loaded:
            await loaded.burst(0, usable_cores(), 1)  # the first tokens page the file in
            for cell in await measured(model.name, loaded, speed):
                yield cell
        path.unlink()


async def measured(name: str, loaded: Loaded, speed: MachineSpeed) -> list[Cell]:
    threads = sorted({1, usable_cores()})
    twice: dict[tuple[int, int], list[float]] = {}
    for depths in (DEPTHS, DEPTHS[::-1]):
        for depth in depths:
            times: dict[int, list[float]] = {count: [] for count in threads}
            for _ in range(BURSTS):
                for count in threads:
                    times[count].append((await loaded.burst(depth, count, TOKENS)).token_s)
            for count in threads:
                twice.setdefault((depth, count), []).append(median(times[count]))
    found = []
    for (depth, count), (first, second) in twice.items():
        rates = speed.rates(count)
        expected = predict(loaded.shape, rates, spot(depth))
        own = [after_reply(loaded.shape, speed, count, at, twice[at, count][0]) for at in REPLIES]
        shallow, deep = (predict(loaded.shape, each, spot(depth)).decode_tokens_per_s for each in own)
        found.append(
            Cell(
                name, loaded.shape, depth, count, 1 / first, 1 / second,
                expected.decode_tokens_per_s,
                shallow, deep, expected.low, expected.high,
            )
        )  # fmt: skip
    return found


def spot(depth: int) -> Conditions:
    return Conditions(depth=depth + TOKENS / 2)


def after_reply(shape: ModelShape, speed: MachineSpeed, threads: int, depth: int, token_s: float) -> Rates:
    """What a first reply at ``depth`` teaches."""
    rates = speed.rates(threads)
    run = run_of(shape, threads=threads, depth=depth + TOKENS / 2, token_s=token_s)
    return adjusted(rates, [own_run(run, rates)])


def report(record: Record, found: Sequence[Cell], read_bytes_per_s: Callable[[int], float]) -> None:
    for name in dict.fromkeys(cell.model for cell in found):
        mine = [cell for cell in found if cell.model == name]
        each = [error_percent(cell.predicted, cell.measured) for cell in mine]
        said = ", ".join(f"{100 * (cell.predicted / cell.measured - 1):+.0f}" for cell in mine)
        record.row(f"  {name}: median error", median(each), "%", note=said)
    rows(record, "predicted before loading", [(c.predicted, c.measured) for c in found], "≤ 5", "≤ 12")
    for depth in DEPTHS:
        pairs = [(c.predicted, c.measured) for c in found if c.depth == depth]
        rows(record, f"  of these, at depth {depth:,}", pairs)
    again = [(c.after_reply, c.second) for c in found]  # what was learned from is not asked again
    rows(record, "after its first reply", again, "≤ 3")
    rows(record, "after a reply at depth 1,024", [(c.after_deep_reply, c.second) for c in found])
    rows(record, "measured again some minutes later", [(c.first, c.second) for c in found])
    inside = [c.low <= c.measured <= c.high for c in found]
    record.row("inside the 80 % interval", 100 * sum(inside) / len(inside), "%", note=f"of {len(inside)}")
    for label, share in (("0.7 x bandwidth / file", THUMB), ("llmfit: 0.55 x bandwidth / file", LLMFIT)):
        pairs = [(share * read_bytes_per_s(c.threads) / c.shape.file_bytes, c.measured) for c in found]
        rows(record, label, pairs)
    roofline = [c.measured * c.shape.bytes_per_token / read_bytes_per_s(c.threads) for c in found]
    pairs = []
    for cell in found:  # its one factor is fitted without the model it is asked about
        factor = median(r for r, c in zip(roofline, found, strict=True) if c.model != cell.model)
        pairs.append((factor * read_bytes_per_s(cell.threads) / cell.shape.bytes_per_token, cell.measured))
    rows(record, "llama-roofline: one factor, the model left out", pairs)


def rows(
    record: Record, label: str, pairs: Sequence[tuple[float, float]], goal: str = "", p90_goal: str = ""
) -> None:
    errors = [error_percent(predicted, real) for predicted, real in pairs]
    record.row(f"{label}: median error", median(errors), "%", goal)
    record.row(f"{label}: 90 % quantile", quantiles(errors, n=10, method="inclusive")[-1], "%", p90_goal)


async def collect(models: Sequence[HeldOut], speed: MachineSpeed, folder: Path) -> list[Cell]:
    found = []
    async for cell in cells(models, speed, folder):
        print(
            f"{cell.model:12} depth {cell.depth:5} threads {cell.threads}  measured {cell.first:7.2f} "
            f"{cell.second:7.2f}  predicted {cell.predicted:7.2f}  "
            f"after a reply {cell.after_reply:7.2f} {cell.after_deep_reply:7.2f}",
            file=sys.stderr,
        )
        found.append(cell)
    return found


def main() -> None:
    parser = arguments(__doc__, repeats=2)
    parser.add_argument("--seed", type=int, default=SEED, help="draws the models (%(default)s)")
    parser.add_argument("--only", type=int, nargs="+", metavar="N", help="some of them, 0 the smallest")
    args = parser.parse_args()
    with TemporaryDirectory() as home, recording("calibrated", args) as record:
        root = Path(home)
        speed = MachineSpeed(Paths(root / "config", root / "data", root / "cache"))
        readings = list(run_probe())
        speed.keep(readings)
        began = time.monotonic()
        command = [sys.executable, "-m", "localchat", "calibrate", "--json"]
        environment = {**environ, "LOCALCHAT_HOME": home}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        record.row("localchat calibrate", time.monotonic() - began, "s", "≤ 60")
        drawn = held_out(args.seed)
        models = [drawn[index] for index in args.only] if args.only else drawn
        found = asyncio.run(collect(models, speed, root))
        report(record, found, probe_of(readings).at)


if __name__ == "__main__":
    main()
