"""Balancers on six requests worked out by hand. A step takes 10 ms, blocks hold 16 tokens."""

from __future__ import annotations

import pytest

from router.simcloud.balancing import BALANCERS, Balancer, LeastLoaded, Load, PrefixAware, RoundRobin
from router.simcloud.cluster import Cluster
from router.simcloud.engine import Engine
from router.simcloud.kv import KvPool
from router.simcloud.loop import Loop
from router.simcloud.metrics import Recorder
from router.simcloud.request import Completed, Job, Rejected
from router.simcloud.schedulers.vllm import Vllm
from tests.router.simcloud.serving import TEN_MS, job

SYNC = Vllm(asynchronous=False)

SIX = [
    job(0, 0.000, 32, 20, prefix=(1, 2)),  # 52 tokens
    job(1, 0.001, 32, 2, prefix=(7, 8)),  # 34 tokens, ends first
    job(2, 0.100, 32, 2, prefix=(3, 4)),  # 0 still runs
    job(3, 0.101, 32, 2, prefix=(5, 6)),
    job(4, 0.102, 48, 2, prefix=(1, 2, 9)),  # begins like 0
    job(5, 0.400, 48, 2, prefix=(3, 4, 9)),  # begins like 2
]


def replicas_of(balancer: Balancer, jobs: list[Job]) -> dict[int, Completed]:
    done: dict[int, Completed] = {}

    def each(outcome: Completed | Rejected) -> None:
        assert isinstance(outcome, Completed)
        done[outcome.request.id] = outcome

    engines = [
        Engine(SYNC, TEN_MS, KvPool(1001), Recorder(1000, each=each), replica=place) for place in range(2)
    ]
    Loop(engines, jobs, Cluster(engines, balancer).route).run()
    return done


@pytest.mark.parametrize(
    ("balancer", "replicas", "cached"),
    [
        # In turn, whatever they do: 5 does not find what 2 left on the other one.
        (RoundRobin(), [0, 1, 0, 1, 0, 1], [0, 0, 0, 0, 32, 0]),
        # 0 holds 52 tokens, 1 nothing: 2 (34) goes there, then 52 against 34: 3 too, then 52 against 68.
        (LeastLoaded(), [0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 32, 0]),
        # As before where nothing is known; 5 goes back to 2's, though both are idle.
        (PrefixAware(), [0, 1, 1, 1, 0, 1], [0, 0, 0, 0, 32, 32]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_six_requests(balancer: Balancer, replicas: list[int], cached: list[int]) -> None:
    done = replicas_of(balancer, SIX)
    assert [done[number].replica for number in range(6)] == replicas
    assert [done[number].cached_tokens for number in range(6)] == cached


def test_a_known_beginning_does_not_draw_requests_to_an_overloaded_replica() -> None:
    aware = PrefixAware(factor=1.5, slack_tokens=100)
    assert aware.choose([Load(190, 5), Load(100, 0)], 0) == 0
    assert aware.choose([Load(201, 5), Load(100, 0)], 0) == 1
    assert aware.choose([Load(1500, 5), Load(1000, 0)], 0) == 0


def test_a_prompt_on_its_way_is_known() -> None:
    """Two that begin alike arrive within one step: the second follows, though nothing is computed yet."""
    jobs = [job(0, 0.0, 32, 5, prefix=(1, 2)), job(1, 0.001, 32, 5, prefix=(1, 2))]
    assert replicas_of(PrefixAware(), jobs)[1].replica == 0
    assert replicas_of(LeastLoaded(), jobs)[1].replica == 1


def test_names() -> None:
    assert all(build().name == name for name, build in BALANCERS.items())
