"""``localchat calibration``: the record of measurements that predictions on this machine rest on."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING, Any

from localchat.errors import LocalchatError
from localchat.plain import plain

if TYPE_CHECKING:
    from bandwidth_model.measured import Calibration
    from localchat.calibration import Entry, Record
    from localchat.speed import MachineSpeed


HEADS = ((9, 3, 64), (32, 8, 64), (12, 2, 128), (16, 8, 128))
"""Query heads, cached heads and their length: of the default model, and as others have them."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.add_argument("--forget", action="store_true", help="remove the record")


def run(args: argparse.Namespace) -> int:
    from localchat.paths import find_paths
    from localchat.speed import MachineSpeed

    speed = MachineSpeed(find_paths())
    if args.forget:
        speed.forget()
    elif args.json:
        show_json(speed)
    else:
        show(speed)
    return 0


def show_json(speed: MachineSpeed) -> None:
    record = speed.record()
    fitted = {
        str(threads): {name: value for name, value in asdict(each).items() if value != inf}
        for threads, each in record.fitted.items()
    }
    rows = [{**_row(entry, record), "model": entry.model} for entry in record.entries]
    print(json.dumps({"key": speed.key, "fitted": fitted, "rows": rows}, indent=1))


def show(speed: MachineSpeed) -> None:
    """Raises LocalchatError where nothing was measured yet."""
    record = speed.record()
    if not record.entries:
        raise LocalchatError("Nothing was calibrated with this engine yet.", "Run: localchat calibrate")
    for threads, fitted in record.fitted.items():
        print(f"{threads} thread{'s' if threads > 1 else ''}")
        for line in _rates(fitted):
            print(f"  {line}")
    print("\n  depth  threads  tokens/s  fitted   error  runs  from       last        model")
    for entry in record.entries:
        row = _row(entry, record)
        day = time.strftime("%Y-%m-%d", time.localtime(entry.at))
        print(
            f"{entry.depth:7,.0f}  {entry.threads:7}  {row['tokens_per_s']:8.1f}  "
            f"{_or_dash(row['fitted_tokens_per_s'], '6.1f')} {_or_dash(row['error_percent'], '+5.1f')} %  "
            f"{len(entry.seconds):4}  "
            f"{entry.source:9}  {day}  {plain(entry.model)}"
        )
    print(f"\nHolds for {speed.key.replace('|', ', ')}.")


def _rates(known: Calibration) -> Iterator[str]:
    from bandwidth_model.attention import Attention
    from bandwidth_model.attention_cost import attention_work, seconds

    for kind, rate in sorted(known.stream_bytes_per_s.items()):
        prefill = known.prefill_by_quantization.get(kind)
        prompts = f"   prompts {prefill / 1e9:6.0f} GFLOP/s" if prefill else ""
        yield f"{kind:6} weights {rate / 1e9:6.1f} GB/s{prompts}"
    for heads, kv_heads, length in HEADS:
        one = Attention(heads, kv_heads, length, length)
        nanoseconds = 1e9 * seconds(attention_work(one, 1, "F16", 1), known.attention) / heads
        yield f"context {nanoseconds:6.1f} ns a token, layer and query head, {heads} / {kv_heads} of {length}"
    yield f"fixed   {known.layer_s * 1e6:.1f} µs a layer, {known.token_s * 1e6:.0f} µs a token"
    yield f"80 % of measured speeds are {known.low:.2f} to {known.high:.2f} of what this fit says"


def _row(entry: Entry, record: Record) -> dict[str, Any]:
    from bandwidth_model.calibrate import predicted_s
    from bandwidth_model.rates import calibrated_rates
    from localchat.calibration import run_from

    known = record.nearest(entry.threads)
    fitted_s = predicted_s(run_from(entry), calibrated_rates(known)) if known else None
    return {
        "threads": entry.threads,
        "depth": entry.depth,
        "tokens_per_s": 1 / entry.token_s,
        "fitted_tokens_per_s": 1 / fitted_s if fitted_s else None,
        "error_percent": 100 * (entry.token_s / fitted_s - 1) if fitted_s else None,
        "runs": len(entry.seconds),
        "source": entry.source,
        "at": entry.at,
    }


def _or_dash(value: float | None, form: str) -> str:
    return f"{value:{form}}" if value is not None else f"{'-':>{form.lstrip('+').partition('.')[0]}}"
