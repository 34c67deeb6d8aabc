"""What a run of the simulator found: the figures of the whole, and what each replica of a fleet did.

Owns the tables for people and the JSON. A fleet of one has no table of replicas.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from localchat.commands.table import quantiles, table

if TYPE_CHECKING:
    from router.simcloud.fleet import Replica
    from router.simcloud.metrics import Summary
    from router.simcloud.retries import ValidSummary

HEADINGS = (
    "replica",
    "requests",
    "tokens/s",
    "TTFT s",
    "batch",
    "busy",
    "KV peak",
    "hits",
    "preempted",
)


def print_summary(
    summary: Summary,
    replicas: list[Replica],
    valid: ValidSummary | None,
    cpu_s: float,
    as_json: bool,
    interrupted: bool,
) -> None:
    if as_json:
        more: dict[str, object] = {} if valid is None else {"valid_answers": valid.as_dict()}
        more |= _replica_dicts(replicas)
        shown = {**summary.as_dict(), **more, "cpu_s": cpu_s, "interrupted": interrupted}
        print(json.dumps(shown, indent=2))
        return
    for line in _table(summary, cpu_s):
        print(line)
    if valid is not None:
        print("\n".join(_valid(valid)))
    for line in _replica_lines(replicas):
        print(line)


def _valid(valid: ValidSummary) -> Iterator[str]:
    yield f"{'valid answers, given up':<26}{valid.valid:>10,}{valid.given_up:>10,}"
    yield f"{'tries for an answer':<26}{valid.tries_per_answer:>10.2f}"
    yield f"{'valid answers/s':<26}{valid.valid_per_s:>10.2f}"
    if valid.valid_per_usd is not None:
        yield f"{'valid answers for a USD':<26}{valid.valid_per_usd:>10,.0f}"
    if valid.latency_s.mean is not None:
        yield f"{'s until valid, mean':<26}{valid.latency_s.mean:>10.4g}"


def _table(summary: Summary, cpu_s: float) -> Iterator[str]:
    rows = (
        ("time to first token", summary.ttft_s),
        ("per further token", summary.tpot_s),
        ("between tokens", summary.itl_s),
        ("in the queue", summary.queue_s),
        ("end to end", summary.e2e_s),
    )
    yield from quantiles("seconds", ((label, latency.all) for label, latency in rows))
    yield ""
    yield f"{'output tokens/s':<26}{summary.output_tokens_per_s:>10,.1f}"
    yield f"{'completed, rejected':<26}{summary.completed:>10,}{summary.rejected:>10,}"
    yield f"{'preemptions':<26}{summary.preemptions:>10,}"
    yield f"{'mean batch':<26}{summary.mean_batch:>10.1f}"
    yield f"{'KV cache at its peak':<26}{summary.kv_peak:>10.1%}"
    yield f"{'GPU busy':<26}{summary.utilisation:>10.1%}"
    if summary.slo_attainment is not None:
        yield f"{'service level met':<26}{summary.slo_attainment:>10.1%}"
    if summary.usd_per_million_tokens is not None:
        yield f"{'USD per million tokens':<26}{summary.usd_per_million_tokens:>10.3f}"
    yield f"{'simulated in CPU seconds':<26}{cpu_s:>10.2f}"


def _replica_dicts(replicas: list[Replica]) -> dict[str, object]:
    return {"replicas": [asdict(each) for each in replicas]} if len(replicas) > 1 else {}


def _replica_lines(replicas: list[Replica]) -> Iterator[str]:
    if len(replicas) > 1:
        yield ""
        yield from table([HEADINGS, *map(_replica_cells, replicas)], right=range(1, len(HEADINGS)))


def _replica_cells(replica: Replica) -> tuple[str, ...]:
    of = replica.summary
    name = str(replica.number) if replica.computes == "both" else f"{replica.computes} {replica.number}"
    return (
        name,
        f"{of.completed:,}",
        f"{of.output_tokens_per_s:,.1f}",
        "-" if of.ttft_s.mean is None else f"{of.ttft_s.mean:.4g}",
        f"{of.mean_batch:.1f}",
        f"{of.utilisation:.0%}",
        f"{of.kv_peak:.0%}",
        f"{of.prefix_hit_rate:.0%}",
        f"{of.preemptions:,}",
    )
