"""What each replica of a fleet did, beside the figures of the whole.

Owns that table and its JSON. A fleet of one has neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from localchat.commands.table import table

if TYPE_CHECKING:
    from router.simcloud.fleet import Replica

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


def replica_dicts(replicas: list[Replica]) -> dict[str, object]:
    return {"replicas": [asdict(each) for each in replicas]} if len(replicas) > 1 else {}


def replica_lines(replicas: list[Replica]) -> Iterator[str]:
    if len(replicas) > 1:
        yield ""
        yield from table([HEADINGS, *map(_cells, replicas)], right=range(1, len(HEADINGS)))


def _cells(replica: Replica) -> tuple[str, ...]:
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
