"""Refits the datasheet tier to the published runs and writes bandwidth_model/coefficients.toml.

Run it after scoreboard.csv or devices.toml changed; tests/bandwidth_model/test_scoreboard.py
fails where the file is not what this script writes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import bandwidth_model
from benchmarks.datasheet_fit import Fitted, fit
from benchmarks.left_out import Held, coverage_percent, left_out, median_and_p90, with_intervals
from benchmarks.scoreboard import SCOREBOARD, Run, runs

COEFFICIENTS = Path(bandwidth_model.__file__).with_name("coefficients.toml")
DIGITS = 4

HEAD = """\
# What published runs of llama.cpp say about each kind of silicon. Written by
# `python -m benchmarks.fit_datasheet` from benchmarks/scoreboard.csv, in which each run has its source.
# {count} runs; leaving one device family out: median error {median:.1f} %, 90 % quantile {p90:.1f} %,
# {coverage:.0f} % of the runs inside their interval.
#   bandwidth_share         of the data sheet's bandwidth, what a stream of weights reaches
#   operations_per_byte     FP32 operations that a byte of weights costs a shader
#   layer_s, layer_thread_s fixed cost of a layer, and what each thread adds to it
#   kv_slowdown             how much slower than weights a cache is read with flash attention
#   kv_operations_per_byte  FP32 operations that a cached byte costs each query head without it
#   prefill_share           achieved in prompts, of FP32^(1-w) x (FP32 usual for the bandwidth)^w,
#   prefill_memory_weight   which is w
#   flops_per_bandwidth     FP32 operations to a byte of bandwidth in the middle of devices.toml
#   low, high               10 % and 90 % quantiles of measured over predicted, likewise for prompts
"""


def fitted(all_runs: Sequence[Run]) -> tuple[Fitted, list[Held]]:
    """The coefficients that the package ships, and the runs held out that give their intervals."""
    held = left_out(all_runs)
    return with_intervals(fit(all_runs), held), held


def as_toml(found: Fitted, held: Sequence[Held]) -> str:
    median, p90 = median_and_p90(each.error_percent for each in held)
    text = HEAD.format(count=len(held), median=median, p90=p90, coverage=coverage_percent(held))
    for silicon, each in found.items():
        text += f"\n[silicon.{silicon}]\n"
        text += "".join(f"{name} = {float(f'{value:.{DIGITS}g}')}\n" for name, value in asdict(each).items())
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=Path, default=SCOREBOARD, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=COEFFICIENTS, metavar="FILE")
    args = parser.parse_args()
    text = as_toml(*fitted(runs(args.rows)))
    args.output.write_text(text, encoding="utf-8")
    print(text, end="")


if __name__ == "__main__":
    main()
