"""Decode rates of published runs against the datasheet tier, one device family left out, and the peers.

Knows of a device only its name: bandwidth and arithmetic come from devices.toml, coefficients and
interval from all other families. Goals: median error at most 7 %, 90 % quantile at most 40 %, 75 to
90 % of the runs inside the 80 % interval. --rows FILE takes other runs in the columns of scoreboard.csv.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bandwidth_model.rates import coefficients
from benchmarks.left_out import Held, coverage_percent, left_out, median_and_p90, predicted
from benchmarks.peers import RULES, error_percent, llama_roofline
from benchmarks.record import Record, arguments, recording
from benchmarks.scoreboard import SCOREBOARD, Run, runs


def ours(record: Record, held: Sequence[Held]) -> None:
    rows = "one device family left out"
    median, p90 = median_and_p90(each.error_percent for each in held)
    record.row("decode: median error", median, "%", "≤ 7", rows)
    record.row("decode: 90 % quantile of the error", p90, "%", "≤ 40", rows)
    covered = coverage_percent(held)
    record.row("runs inside the 80 % interval", covered, "%", "≥ 75", "and ≤ 90")
    record.row("runs inside the 80 % interval", covered, "%", "≤ 90", f"of {len(held)}")
    for silicon, count in Counter(each.run.device.silicon for each in held).most_common():
        some = [each for each in held if each.run.device.silicon == silicon]
        median, p90 = median_and_p90(each.error_percent for each in some)
        said = f"90 % quantile {p90:.1f} %, {coverage_percent(some):.0f} % of {count} inside"
        record.row(f"  {silicon}: median error", median, "%", note=said)
    prefill = [100 * abs(1 / ratio - 1) for each in held if (ratio := each.prefill_ratio)]
    median, p90 = median_and_p90(prefill)
    record.row("prefill: median error", median, "%", note=f"90 % quantile {p90:.0f} % of {len(prefill)}")


def shipped(record: Record, all_runs: Sequence[Run]) -> None:
    """What a user gets: no figure of merit where these runs are those of the fit."""
    held = [Held(run, predicted(run, coefficients())) for run in all_runs]
    median, p90 = median_and_p90(each.error_percent for each in held)
    said = f"90 % quantile {p90:.1f} %, {coverage_percent(held):.0f} % inside"
    record.row("with the shipped coefficients: median error", median, "%", note=said)


def peers(record: Record, all_runs: Sequence[Run]) -> None:
    rules = {name: [rule(run) for run in all_runs] for name, rule in RULES.items()}
    rules["llama-roofline: bytes read / (share x bandwidth)"] = llama_roofline(all_runs)
    for name, predictions in rules.items():
        pairs = zip(predictions, all_runs, strict=True)
        median, p90 = median_and_p90(error_percent(predicted, run) for predicted, run in pairs)
        record.row(name, median, "%", note=f"90 % quantile {p90:.0f} %")


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    parser.add_argument("--rows", type=Path, default=SCOREBOARD, metavar="FILE", help="default: %(default)s")
    parser.set_defaults(patience=0.0)  # no figure here depends on how busy the machine is
    args = parser.parse_args()
    with recording("scoreboard", args) as record:
        all_runs = runs(args.rows)
        ours(record, left_out(all_runs))
        shipped(record, all_runs)
        peers(record, all_runs)


if __name__ == "__main__":
    main()
