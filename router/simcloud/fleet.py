"""A fleet described in plain values, and its replicas built and joined: behind a balancer, or apart.

Owns the choice between the two and the figures of the whole. What one replica is, is deployment's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle

from router.errors import InvalidSimulation
from router.simcloud.balancing import LeastLoaded, find_balancer
from router.simcloud.cluster import Cluster
from router.simcloud.deployment import Deployment, Parts, build
from router.simcloud.disaggregation import Disaggregated
from router.simcloud.link import SharedLink
from router.simcloud.llm import find_llm
from router.simcloud.loop import Loop
from router.simcloud.metrics import Recorder, Summary
from router.simcloud.request import Completed, Job, Rejected
from router.simcloud.workload import ClosedLoop

TAKES_AS_NEEDED = ("vllm", "sarathi", "vllm-old")
"""Policies that know adapters and several samples: those that take blocks as they are needed."""

LINK_BYTES_PER_S = 25e9
"""Between GPUs of two machines: 200 Gbit/s InfiniBand, as a DGX A100's adapters have it."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """``prefill_replicas`` 0: every replica does both. Otherwise ``replicas`` decode only."""

    replicas: int = 1
    balancer: str = "round-robin"
    prefill_replicas: int = 0
    link_bytes_per_s: float = LINK_BYTES_PER_S
    link_latency_s: float = 0.0

    def __post_init__(self) -> None:
        if self.replicas < 1 or self.prefill_replicas < 0:
            raise InvalidSimulation("A fleet has at least one replica.", "Raise --replicas.")


Each = Callable[[Completed | Rejected], None]


@dataclass(frozen=True, slots=True)
class Replica:
    """One machine's own figures. ``computes``: prompts, answers, or both."""

    number: int
    computes: str
    summary: Summary


@dataclass(slots=True)
class Service:
    """``parts`` by replica, ``prefill`` those of a prefill pool."""

    parts: list[Parts]
    prefill: list[Parts]
    ended: Recorder
    over: Callable[[Iterable[Job], bool], Loop]  # True: ends of requests cause others
    apart: Disaggregated | None = None

    def run(self, jobs: Iterable[Job], progress: Callable[[int, float], None] | None = None) -> None:
        self.over(jobs, False).run(progress)

    def run_closed(self, clients: ClosedLoop, progress: Callable[[int, float], None] | None = None) -> None:
        """Instead of a list of arrivals, clients that wait for their answers."""
        if self.apart is not None:
            raise InvalidSimulation("Clients ask replicas that do both.", "Leave out --prefill-replicas.")
        clients.over(self.over((), True), [each.engine for each in self.parts]).run(progress)

    def replicas(self) -> list[Replica]:
        """Each by itself: what was sent to it, from the first that reached it to the last it ended."""
        answers = "answers" if self.prefill else "both"
        pools = ((self.prefill, "prompts"), (self.parts, answers))
        return [
            Replica(number, computes, parts.recorder.summary())
            for pool, computes in pools
            for number, parts in enumerate(pool)
        ]

    def summary(self) -> Summary:
        total = self.ended
        for parts in self.parts:
            total.absorb(parts.recorder)
        for parts in self.prefill:
            total.absorb(parts.recorder, answers=False)
        return total.summary()


def open_fleet(
    deployment: Deployment, fleet: Fleet, each: Each | None = None, prefill_as: Deployment | None = None
) -> Service:
    """``prefill_as``: what a prefill replica is, if not the same as the others."""
    balancer = find_balancer(fleet.balancer)
    parts = [build(deployment, each, place) for place in range(fleet.replicas)]
    cluster = Cluster([each.engine for each in parts], balancer)
    ended = parts[0].recorder.of_the_whole(each)
    if not fleet.prefill_replicas:

        def over(jobs: Iterable[Job], dependent: bool) -> Loop:
            return Loop(cluster.engines, jobs, cluster.route, dependent)

        return Service(parts, [], ended, over)
    if deployment.swap_bytes_per_s is not None:
        raise InvalidSimulation("Apart, preempted sequences are computed again.", "Leave out --swap.")
    prompts = prefill_as or deployment
    prefill = [build(prompts, None, place, holds=True) for place in range(fleet.prefill_replicas)]
    link = SharedLink(fleet.link_bytes_per_s, fleet.link_latency_s)
    pool = Cluster([each.engine for each in prefill], LeastLoaded())
    apart = Disaggregated(pool, cluster, link, find_llm(deployment.model).kv_bytes_per_token, ended)
    return Service(parts, prefill, ended, lambda jobs, dependent: apart.over(jobs), apart)


def check_policy(deployment: Deployment, what: str) -> None:
    """Adapters and samples need a policy that takes blocks as they are needed."""
    reserves = deployment.options.get("admission") == "reserve"
    if deployment.policy not in TAKES_AS_NEEDED or reserves:
        raise InvalidSimulation(
            f"{what} work with policies that take blocks as needed.", "Use --policy vllm."
        )


def over_adapters(jobs: Iterable[Job], count: int) -> Iterator[Job]:
    """Each job with the next of ``count`` adapters, in turn."""
    for job, number in zip(jobs, cycle(range(count)), strict=False):
        yield replace(job, request=replace(job.request, adapter=f"adapter-{number}"))


def sampled(jobs: Iterable[Job], samples: int) -> Iterator[Job]:
    for job in jobs:
        yield replace(job, request=replace(job.request, samples=samples))
