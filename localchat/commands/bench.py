"""``localchat bench``: the engine against its prediction, at several depths and thread counts.

Owns the command line, the table, the chart and the JSON. What is measured is the real
engine in its process; the prediction is made before it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from localchat.errors import UsageError
from localchat.flags import FAILED

if TYPE_CHECKING:
    from bandwidth_model.predict import Prediction
    from localchat.calibrating import Burst
    from localchat.weights import Weights

DEPTHS = (0, 1024, 4096)
TOKENS = 40
BURSTS = 5
BAR_CELLS = 36
HEADINGS = """\
                   decode tokens/s                                   prompt tokens/s
  depth  threads   measured  predicted   80 % between      error   measured  predicted   model"""
ENGINE = "llama_cpp"


@dataclass(frozen=True, slots=True)
class Row:
    """Predicted before it was measured. ``low`` and ``high``: 80 % of measured rates lie between."""

    model: str
    engine: str
    depth: int
    threads: int
    measured_decode_tokens_per_s: float
    predicted_decode_tokens_per_s: float
    low: float
    high: float
    measured_prefill_tokens_per_s: float
    predicted_prefill_tokens_per_s: float
    tier: str
    disturbed: bool  # another program was running, every time

    @property
    def error_percent(self) -> float:
        """Of the prediction: positive where it promised too much."""
        return 100 * (self.predicted_decode_tokens_per_s / self.measured_decode_tokens_per_s - 1)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models", nargs="*", metavar="MODEL", help="names or paths (default: the default model)"
    )
    parser.add_argument(
        "--depths", type=_count, nargs="+", metavar="N", help="tokens of context before (0 1024 4096)"
    )
    parser.add_argument(
        "--threads", type=_positive, nargs="+", metavar="N", help="thread counts (1 and all cores)"
    )
    parser.add_argument(
        "--tokens", type=_positive, default=TOKENS, metavar="N", help="decoded at each (%(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw measured against predicted (.png or .svg)"
    )


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) > 2**24:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of tokens")
    return int(text)


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 512:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 512")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from localchat.plotting import check_plot_file

    if args.plot:
        check_plot_file(args.plot)
    return asyncio.run(_bench(args))


async def _bench(args: argparse.Namespace) -> int:
    from bandwidth_model.machine import usable_cores
    from localchat.compose import build_catalog
    from localchat.paths import find_paths
    from router.errors import RouterError

    paths = find_paths()
    catalog = build_catalog(paths)
    found = [catalog.find(name) for name in args.models or ["default"]]
    cores = usable_cores()
    threads = sorted(set(args.threads or (1, cores)))
    if max(threads) > cores:
        raise UsageError(f"{max(threads)} threads are more than the {cores} cores there are.")
    rows: list[Row] = []
    code = 0
    for weights in found:
        try:
            async for row in _measure(weights, args, threads):
                rows.append(row)
                if not args.json:
                    _print_row(row, len(rows) == 1)
        except RouterError as error:
            code = FAILED
            print(f"localchat: {error}", file=sys.stderr)
    if args.json:
        print(json.dumps({"machine": _machine(), "rows": [_fields(row) for row in rows]}, indent=1))
    elif rows:
        _print_chart(rows)
    if args.plot and rows:
        _plot(rows, args.plot)
    return code


async def _measure(
    weights: Weights, args: argparse.Namespace, thread_counts: Sequence[int]
) -> AsyncGenerator[Row, None]:
    from bandwidth_model.predict import PROMPT_TOKENS, Conditions, predict
    from localchat.calibrating import Subject, opened
    from localchat.paths import find_paths
    from localchat.speed import MachineSpeed
    from localchat.weights.shapes import shape_at

    shape, speed = shape_at(weights.path), MachineSpeed(find_paths())
    burst_tokens = max(1, args.tokens // BURSTS)
    depths = tuple(sorted(set(args.depths or _usual_depths(shape.context_length, burst_tokens))))
    predictions = {}
    for threads in thread_counts:
        rates = speed.rates(threads, shape)
        for depth in depths:
            at = Conditions(depth=depth + burst_tokens / 2, prompt_tokens=PROMPT_TOKENS)
            predictions[depth, threads] = predict(shape, rates, at)
    async with opened(Subject(weights.name, weights.path), max(thread_counts)) as loaded:
        await loaded.burst(depths[0], max(thread_counts), 1)  # the first tokens page the file in
        for depth in depths:
            cells: dict[int, list[Burst]] = {threads: [] for threads in thread_counts}
            for number in range(BURSTS):  # thread counts in turn: what comes and goes meets all of them
                for threads, bursts in cells.items():
                    prompt = PROMPT_TOKENS if number == 0 else 0
                    bursts.append(await loaded.burst(depth, threads, burst_tokens, prompt))
            for threads, bursts in cells.items():
                yield _row(weights.name, bursts, predictions[depth, threads])


def _row(model: str, bursts: Sequence[Burst], expected: Prediction) -> Row:
    """The median of bursts that no other program disturbed, or of all where every one was."""
    counted = [burst for burst in bursts if not burst.disturbed] or bursts
    prompts = [burst.prompt_s for burst in bursts if burst.prompt_tokens]
    return Row(
        model=model,
        engine=ENGINE,
        depth=bursts[0].depth,
        threads=bursts[0].threads,
        measured_decode_tokens_per_s=1 / median(burst.token_s for burst in counted),
        predicted_decode_tokens_per_s=expected.decode_tokens_per_s,
        low=expected.low,
        high=expected.high,
        measured_prefill_tokens_per_s=expected.basis.conditions.prompt_tokens / median(prompts),
        predicted_prefill_tokens_per_s=expected.prefill_tokens_per_s,
        tier=expected.tier,
        disturbed=all(burst.disturbed for burst in bursts),
    )


def _usual_depths(context: int | None, tokens: int) -> list[int]:
    room = (context or DEPTHS[-1]) - tokens - 2
    return [depth for depth in DEPTHS if depth <= room] or [0]


# -- what is shown


def _fields(row: Row) -> dict[str, object]:
    return {
        "model": row.model,
        "engine": row.engine,
        "depth": row.depth,
        "threads": row.threads,
        "measured_decode_tokens_per_s": round(row.measured_decode_tokens_per_s, 3),
        "predicted_decode_tokens_per_s": round(row.predicted_decode_tokens_per_s, 3),
        "low": round(row.low, 3),
        "high": round(row.high, 3),
        "error_percent": round(row.error_percent, 2),
        "measured_prefill_tokens_per_s": round(row.measured_prefill_tokens_per_s, 2),
        "predicted_prefill_tokens_per_s": round(row.predicted_prefill_tokens_per_s, 2),
        "tier": row.tier,
        "disturbed": row.disturbed,
    }


def _machine() -> dict[str, object]:
    import os
    import platform

    from bandwidth_model.machine import usable_cores
    from bandwidth_model.recognise import machine_names
    from localchat.engines.build_info import installed_build

    return {
        "name": next(iter(machine_names()), platform.machine()),
        "cores": usable_cores(),
        "system": platform.platform(),
        "build": installed_build(),
        "load": list(os.getloadavg()),
    }


def _print_row(row: Row, first: bool) -> None:
    if first:
        print(HEADINGS)
    busy = "  another program was running" if row.disturbed else ""
    print(
        f"{row.depth:7,}  {row.threads:7}  {row.measured_decode_tokens_per_s:9.1f}  "
        f"{row.predicted_decode_tokens_per_s:9.1f}  {row.low:6.1f}–{row.high:<6.1f}  "
        f"{row.error_percent:+6.1f} %  {row.measured_prefill_tokens_per_s:9.0f}  "
        f"{row.predicted_prefill_tokens_per_s:9.0f}   {row.model}{busy}",
        flush=True,
    )


def _print_chart(rows: Sequence[Row]) -> None:
    """Bars of the measured rate; a mark where the prediction is."""
    longest = max(max(r.measured_decode_tokens_per_s, r.predicted_decode_tokens_per_s) for r in rows)
    print("\ndecode tokens/s: bar measured, │ predicted")
    for row in rows:
        bar = round(BAR_CELLS * row.measured_decode_tokens_per_s / longest)
        mark = min(BAR_CELLS, round(BAR_CELLS * row.predicted_decode_tokens_per_s / longest))
        cells = ["█" if at < bar else " " for at in range(BAR_CELLS + 1)]
        cells[mark] = "│"
        plural = "s" if row.threads > 1 else " "
        print(
            f"{row.depth:7,} {row.threads:3} thread{plural} {''.join(cells)} "
            f"{row.measured_decode_tokens_per_s:7.1f}  {row.model[:28]}"
        )
    tiers = ", ".join(dict.fromkeys(row.tier for row in rows))
    print(f"\nPredicted by: {tiers}.", _more_certain(tiers))


def _more_certain(tiers: str) -> str:
    if "datasheet" in tiers:
        return "`localchat probe` measures this machine's memory, `localchat calibrate` the engine on it."
    if "probed" in tiers:
        return "`localchat calibrate` measures the engine itself on this machine."
    return "What was fitted: `localchat calibration`."


def _plot(rows: Sequence[Row], file: Path) -> None:
    from localchat.plotting import Series, save_scatter

    series = [
        Series(
            f"{model}, {threads} thread{'s' if threads > 1 else ''}",
            [r.predicted_decode_tokens_per_s for r in rows if (r.model, r.threads) == (model, threads)],
            [r.measured_decode_tokens_per_s for r in rows if (r.model, r.threads) == (model, threads)],
        )
        for model, threads in dict.fromkeys((r.model, r.threads) for r in rows)
    ]
    save_scatter(file, series, "predicted tokens/s", "measured tokens/s", diagonal=True)
    print(f"Drawn: {file}", file=sys.stderr)
