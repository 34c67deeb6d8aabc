"""Whether prompts and answers should have GPUs of their own, at equal GPUs: goodput by service level.

Owns the workloads, the levels and the fleets compared, each of four GPUs. What is measured is the largest
rate at which 90 % of requests meet both bounds, for one GPU.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from router.simcloud.capacity import largest_rate
from router.simcloud.deployment import Deployment
from router.simcloud.fleet import Fleet, open_fleet
from router.simcloud.metrics import ServiceLevel, Summary
from router.simcloud.studies.sweep import Row, lines, sweep
from router.simcloud.studies.table import Table
from router.simcloud.workload import lognormal, open_loop, poisson

NAME = "disaggregation"
SUMMARY = "prompts and answers together or apart on four GPUs: requests/s a GPU by service level"

REQUESTS = 180
ATTAINED = 0.9
"""As DistServe counts goodput."""

GPUS = 4
START_PER_S = 4.0
WITHIN = 0.05  # of the rate: the bisection stops there


@dataclass(frozen=True, slots=True)
class Case:
    """Medians, spread and longest of prompts and answers; the first token's bound."""

    name: str
    model: str
    lengths: tuple[int, int, float, int]
    ttft_s: float

    @property
    def words(self) -> str:
        prompt, answer, spread, longest = self.lengths
        return (
            f"{self.name}: {self.model}, prompts of {prompt:,} and answers of {answer} tokens in the median"
            f" (lognormal, spread {spread:g}, at most {longest:,}), first token within {self.ttft_s:g} s"
        )


LONG = Case("long", "llama-3-8b", (2000, 100, 0.3, 8000), 0.4)
LONGER = Case("longer", "llama-3-8b", (4000, 100, 0.2, 8000), 0.5)
CHAT = Case("chat", "opt-13b", (512, 150, 0.9, 1024), 0.25)

POINTS = ((LONG, 12.5), (LONG, 25.0), (LONG, 50.0), (LONGER, 15.0), (CHAT, 100.0))
"""With the bound on each further token, in ms. A step of Llama-3-8B alone takes 10.3 ms."""


@dataclass(frozen=True, slots=True)
class Way:
    """``chunk`` tokens of prompts beside the answers in a step, None: prompts first. ``gpus`` as one for each
    replica that computes prompts."""

    chunk: int | None
    fleet: Fleet
    gpus: int = 1


LINK, SLOW_LINK = 25e9, 5e9
FIRST = "prompts first"
WAYS = {
    FIRST: Way(None, Fleet(4, "least-loaded")),
    "prompts first, TP 2": Way(None, Fleet(2, "least-loaded"), gpus=2),
    "chunks of 512": Way(512, Fleet(4, "least-loaded")),
    "chunks of 128": Way(128, Fleet(4, "least-loaded")),
    "apart 2+2": Way(None, Fleet(2, "least-loaded", 2, LINK)),
    "apart 3+1": Way(None, Fleet(1, "least-loaded", 3, LINK)),
    "apart 3+1, 5 GB/s": Way(None, Fleet(1, "least-loaded", 3, SLOW_LINK)),
    "apart TP 2 + 2": Way(None, Fleet(2, "least-loaded", 1, LINK), gpus=2),
}
NOTES = (
    f"{REQUESTS} Poisson requests on four A100-80GB. "
    + "; ".join(c.words for c in (LONG, LONGER, CHAT))
    + ".",
    "/s a GPU: the largest rate at which 90 % meet both bounds; times: against prompts first. TTFT and TPOT:"
    " their 90 % quantiles there; move: mean time of a prompt's KV on the link, 25 GB/s that all share.",
    "TP 2: two GPUs as one, whose talk costs nothing here, so these rows flatter it.",
    "Agrees: where the bound leaves no room for a prompt between two tokens (long, 12.5 ms), apart serves 3.3"
    " times the rate of prompts first; with the longer prompts 1.8 times.",
    "Disagrees: small chunks do as well without moving anything (128 tokens: 4.1 times), though only while"
    " prompts so cut meet their own bound (longer: they do not). With a chat's bounds apart loses: together"
    " TPOT is 74 ms, within its 100, and GPUs kept for one phase cannot help with the other.",
    "The split decides: 2+2 is best at 12.5 ms, 3+1 at 25 ms, and a slow link takes the gain away. DistServe"
    " searches for it, and for each phase's parallelism.",
)
PUBLISHED = (
    "DistServe: up to 7.4x the requests, or levels 12.6x tighter, with 90 % within them (4.48x in its first"
    " version), against vLLM.",
    "Mooncake: up to 525 % more throughput in simulated long-context loads.",
)


def run(seed: int, progress: Callable[[float], None]) -> Iterator[Table]:
    first: dict[tuple[Case, float], float] = {}
    points = [(case, tpot_ms, label) for case, tpot_ms in POINTS for label in WAYS]
    return sweep(points, lambda point: _measure(*point, seed, first), _table, progress)


def _measure(
    case: Case, tpot_ms: float, label: str, seed: int, first: dict[tuple[Case, float], float]
) -> Row:
    level = ServiceLevel(case.ttft_s, tpot_ms / 1000)
    rate = goodput(case, level, WAYS[label], seed)
    if label == FIRST:
        first[case, tpot_ms] = rate
    alike = first[case, tpot_ms]
    return {
        "case": case.name,
        "TPOT <=": tpot_ms,
        "fleet": label,
        "/s a GPU": rate / GPUS,
        "times": rate / alike if alike else 0.0,
        **_figures(case, level, WAYS[label], rate, seed),
    }


def goodput(case: Case, level: ServiceLevel, way: Way, seed: int) -> float:
    """Requests/s of the whole fleet, of which ``ATTAINED`` meet the level."""

    def meets(rate: float) -> bool:
        found, _ = serve(case, level, way, rate, seed)
        return (found.slo_attainment or 0.0) >= ATTAINED

    return largest_rate(meets, START_PER_S, WITHIN)


def _figures(case: Case, level: ServiceLevel, way: Way, rate: float, seed: int) -> Row:
    """At that rate; of one that meets it at no rate, at a tenth of a request a second."""
    found, transfer_s = serve(case, level, way, max(rate, 0.1), seed)
    return {
        "TTFT s": found.ttft_s.p90 or 0.0,
        "TPOT ms": 1000 * (found.tpot_s.p90 or 0.0),
        "move ms": 1000 * transfer_s,
    }


def serve(case: Case, level: ServiceLevel, way: Way, rate: float, seed: int) -> tuple[Summary, float]:
    """What came out, and the mean seconds of a transfer."""
    options: dict[str, object] = {"asynchronous": False, "max_sequences": min(256, way.chunk or 256)}
    policy = "vllm" if way.fleet.prefill_replicas else "vllm-old"
    if way.chunk is not None:
        policy, options = "sarathi", {**options, "token_budget": way.chunk}
    apart = bool(way.fleet.prefill_replicas)
    together = Deployment(case.model, policy=policy, level=level, options=options)
    deployment = together if apart else replace(together, gpus=way.gpus)
    prompts = replace(together, policy="vllm-old", gpus=way.gpus)
    service = open_fleet(deployment, way.fleet, prefill_as=prompts)
    draw = random.Random(seed)
    service.run(open_loop(poisson(rate, draw), lognormal(*case.lengths), REQUESTS, draw))
    moved = service.apart.transfer_s.mean if service.apart else None
    return service.summary(), moved or 0.0


def _table(rows: list[Row]) -> Table:
    return Table(
        title="Prefill and decode, together and apart, on four A100s",
        x_label="bound on the time per token, ms (case long)",
        y_label="requests/s a GPU",
        series=lines((row for row in rows if row["case"] == LONG.name), "fleet", "TPOT <=", "/s a GPU"),
        notes=NOTES,
        published=PUBLISHED,
        rows=tuple(rows),
    )
