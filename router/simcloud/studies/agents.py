"""What a user waits for when one question is tens of dependent calls."""

from __future__ import annotations

import random
from collections.abc import Callable

from router.simcloud.agents import AgentLoad, Task, chain, fan_out
from router.simcloud.balancing import find_balancer
from router.simcloud.cluster import Cluster
from router.simcloud.deployment import Deployment, build
from router.simcloud.studies.table import Table, lines

NAME = "agents"
SUMMARY = "chains and fan-outs of calls on two replicas: prefix cache, balancer, earlier tasks first"

TASKS, SHARED_TOKENS, CALLS = 60, 1024, 12
RATES = (0.5, 1.0, 2.0)
WAYS = {
    "no prefix cache": ("round-robin", False, False),
    "in turn": ("round-robin", True, False),
    "prefix-aware": ("prefix-aware", True, False),
    "prefix-aware, earlier tasks first": ("prefix-aware", True, True),
}


def run(seed: int, progress: Callable[[float], None]) -> Table:
    rows: list[dict[str, float | str]] = []
    for place, rate in enumerate(RATES):
        for label, way in WAYS.items():
            rows.append({"way": label, "tasks_per_s": rate, **_serve(seed, rate, *way)})
        progress((place + 1) / len(RATES))
    return Table(
        "Agents: tasks of dependent calls on two A100s",
        "tasks/s",
        "mean seconds a task",
        lines(rows, "way", "tasks_per_s", "task_mean_s"),
        (
            f"{TASKS} Poisson tasks: half chains of {CALLS}, half a plan, {CALLS - 2} parts and a summary,"
            f" {SHARED_TOKENS} tokens shared, calls add 50 to 400 and answer 20 to 200, 0.2 s of tools.",
            "Llama-3-8B, 32 sequences a replica at most.",
        ),
        (
            "Autellix (earlier programs' calls first): 4x to 15x the programs of vLLM at equal latency.",
            "SGLang: up to 6.4x throughput by reuse of prefixes on programs of many calls.",
        ),
        tuple(rows),
    )


def _serve(seed: int, rate: float, balancer: str, cache: bool, by_task: bool) -> dict[str, float]:
    options: dict[str, object] = {"max_sequences": 32, "order": "priority" if by_task else None}
    deployment = Deployment(prefix_cache=cache, options=options)
    parts = [build(deployment, None, place) for place in range(2)]
    engines = [each.engine for each in parts]
    load = AgentLoad(_tasks(rate, random.Random(seed)), by_task)
    load.over(engines, Cluster(engines, find_balancer(balancer)).route).run()
    total = parts[0].recorder.of_the_whole(None)
    for each in parts:
        total.absorb(each.recorder)
    found = total.summary()
    (p99,) = load.task_s.at((0.99,))
    return {
        "task_mean_s": load.task_s.mean or 0.0,
        "task_p99_s": p99 or 0.0,
        "call_mean_s": found.e2e_s.mean or 0.0,
        "call_ttft_mean_s": found.ttft_s.mean or 0.0,
        "prefix_hit_rate": found.prefix_hit_rate,
    }


def _tasks(rate: float, draw: random.Random) -> list[Task]:
    at_s, tasks = 0.0, []
    for number in range(TASKS):
        at_s += draw.expovariate(rate)
        kind, size = (chain, CALLS) if number % 2 else (fan_out, CALLS - 2)
        calls = kind(size, lambda d: d.randint(50, 400), lambda d: d.randint(20, 200), draw, 0.2)
        tasks.append(Task(number, at_s, calls, SHARED_TOKENS))
    return tasks
