"""Predicted against measured decode speed on this machine, after `localchat calibrate`, on held-out models.

Models of random weights that the calibration never saw (other shapes, 0.1 to 3 billion parameters, seven
quantisations) at depths 0 to 4096 with one thread and with all. Each is predicted before it is loaded; then
again with what its own first reply (depth 0) taught, against what was measured afterwards. Goals: median
error at most 5 %, 90 % quantile at most 12 %; after the first reply at most 3 %. Beside them what other rules
say, given this machine's probe.
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
from bandwidth_model.random_gguf import Geometry, write_random_gguf
from bandwidth_model.rates import Rates, adjusted
from bandwidth_model.shape import ModelShape
from benchmarks.peers import LLMFIT, THUMB
from benchmarks.record import Record, arguments, recording
from localchat.calibrating import Loaded, Subject, opened
from localchat.paths import Paths
from localchat.speed import MachineSpeed

DEPTHS = (0, 1024, 4096)
TOKENS = 8  # of a burst
BURSTS = 5

# name: shape, quantisation, that of the output head
HELD_OUT = {
    "0.2B Q4_1": (Geometry(16, 1024, 3072, 16, 8, 64, 49152), "Q4_1", "Q8_0"),
    "0.3B F16": (Geometry(14, 1152, 3456, 18, 6, 64, 32000), "F16", "F16"),
    "0.4B Q4_K": (Geometry(24, 1024, 4096, 16, 4, 64, 100352), "Q4_K", "Q6_K"),
    "0.5B Q5_K": (Geometry(16, 1280, 5120, 20, 5, 64, 65536), "Q5_K", "Q6_K"),
    "0.6B Q6_K": (Geometry(22, 1280, 3840, 10, 2, 128, 48000), "Q6_K", "Q6_K"),
    "0.7B Q8_0": (Geometry(18, 1536, 5376, 12, 4, 128, 32000), "Q8_0", "Q8_0"),
    "1.7B Q4_0": (Geometry(24, 2048, 7168, 16, 8, 128, 64000), "Q4_0", "Q6_K"),
    "2.9B Q4_K": (Geometry(28, 2816, 8960, 22, 2, 128, 64000), "Q4_K", "Q6_K"),
}


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
    after_reply: float
    low: float
    high: float

    @property
    def measured(self) -> float:
        return (self.first + self.second) / 2


def error_percent(predicted: float, measured: float) -> float:
    return 100 * abs(predicted / measured - 1)


async def cells(models: Sequence[str], speed: MachineSpeed, folder: Path) -> AsyncIterator[Cell]:
    for name in models:
        geometry, quantization, head = HELD_OUT[name]
        path = folder / "held-out.gguf"
        write_random_gguf(path, geometry, quantization, head=head, seed=1)
        async with opened(Subject(name, path), usable_cores()) as loaded:
            await loaded.burst(0, usable_cores(), 1)  # the first tokens page the file in
            for cell in await measured(name, loaded, speed):
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
        expected = predict(loaded.shape, rates, at(depth))
        own = after_first_reply(loaded.shape, speed, count, twice[0, count][0])
        found.append(
            Cell(
                name, loaded.shape, depth, count, 1 / first, 1 / second,
                expected.decode_tokens_per_s,
                predict(loaded.shape, own, at(depth)).decode_tokens_per_s,
                expected.low, expected.high,
            )
        )  # fmt: skip
    return found


def at(depth: int) -> Conditions:
    return Conditions(depth=depth + TOKENS / 2)


def after_first_reply(shape: ModelShape, speed: MachineSpeed, threads: int, token_s: float) -> Rates:
    run, rates = run_of(shape, threads=threads, depth=TOKENS / 2, token_s=token_s), speed.rates(threads)
    return adjusted(rates, [own_run(run, rates)])


def report(record: Record, found: Sequence[Cell], read_bytes_per_s: Callable[[int], float]) -> None:
    for name in dict.fromkeys(cell.model for cell in found):
        mine = [cell for cell in found if cell.model == name]
        each = [error_percent(cell.predicted, cell.measured) for cell in mine]
        said = ", ".join(f"{100 * (cell.predicted / cell.measured - 1):+.0f}" for cell in mine)
        record.row(f"  {name}: median error", median(each), "%", note=said)
    rows(record, "predicted before loading", [(c.predicted, c.measured) for c in found], "≤ 5", "≤ 12")
    again = [(c.after_reply, c.second) for c in found]  # what was learned from is not asked again
    rows(record, "after its first reply", again, "≤ 3")
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


async def collect(models: Sequence[str], speed: MachineSpeed, folder: Path) -> list[Cell]:
    found = []
    async for cell in cells(models, speed, folder):
        print(
            f"{cell.model:12} depth {cell.depth:5} threads {cell.threads}  measured {cell.first:7.2f} "
            f"{cell.second:7.2f}  predicted {cell.predicted:7.2f}  after a reply {cell.after_reply:7.2f}",
            file=sys.stderr,
        )
        found.append(cell)
    return found


def main() -> None:
    parser = arguments(__doc__, repeats=2)
    parser.add_argument("--models", nargs="+", choices=HELD_OUT, default=list(HELD_OUT), metavar="NAME")
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
        found = asyncio.run(collect(args.models, speed, root))
        report(record, found, probe_of(readings).at)


if __name__ == "__main__":
    main()
