"""``localchat simulate batching``: a server that batches requests dynamically, encoders or generation.

Owns flags, the table for people and the JSON; the simulation is router.simcloud.dynamic's.
Imports nothing heavy before it runs.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localchat.commands.per_request import each_request
from localchat.commands.simulate_additions import sizes
from localchat.commands.simulate_numbers import OF_BATCHING, check_numbers
from localchat.errors import UsageError
from localchat.flags import INTERRUPTED

if TYPE_CHECKING:
    from router.simcloud.dynamic.batch_cost import BatchCost
    from router.simcloud.dynamic.report import BatchingSummary, Report
    from router.simcloud.dynamic.repository import Call, Repository
    from router.simcloud.dynamic.server import Outcome
    from router.simcloud.request import Job

CSV_COLUMNS = (
    "id",
    "arrived_at",
    "priority",
    "status",
    "model",
    "version",
    "instance",
    "batch",
    "queue_s",
    "e2e_s",
)


def add_arguments(actions: Any) -> None:
    parser = actions.add_parser("batching", help="a server that waits for batches: encoders, whole answers")
    add = parser.add_argument
    add(
        "--model",
        action="append",
        metavar="NAME[:VERSION]",
        help="bert-base (default), bert-large ..., or a model that generates; several are asked in turn",
    )
    add("--gpu", default="a100", metavar="NAME", help="default: %(default)s")
    add("--linear", metavar="A,B", help="a batch takes A + B x size milliseconds, whatever the model and GPU")
    add("--requests", type=Path, metavar="FILE", help="instead of requests that are made up")
    add("--rate", type=float, default=1000.0, metavar="N", help="requests/s, Poisson, default: 1000")
    add("--count", type=int, default=20_000, metavar="N", help="of requests, default: 20000")
    add("--tokens", type=int, default=128, metavar="N", help="of a request, default: 128")
    add("--output-tokens", type=int, default=1, metavar="N", help="of an answer, if the model generates")
    add("--max-batch", type=int, default=32, metavar="N", help="default: 32")
    add("--preferred", metavar="N,N", help="batch sizes that are sent once they can be formed")
    add("--max-queue-delay", type=float, default=0.0, metavar="MS", help="wait for a batch, default: 0")
    add("--instances", type=int, default=1, metavar="N", help="that share a queue, each with a GPU")
    add("--queue-limit", type=int, metavar="N", help="reject who finds N waiting")
    add("--timeout", type=float, metavar="MS", help="what happens to who waits longer:")
    add("--on-timeout", choices=("reject", "defer"), default="reject", help="default: reject")
    add("--urgent", type=float, default=0.0, metavar="SHARE", help="share of requests that go first")
    add("--slo", type=float, metavar="MS", help="service level: answered within MS milliseconds")
    add("--usd-per-hour", type=float, metavar="USD", help="of one GPU")
    add("--seed", type=int, default=0, metavar="N")
    add("--per-request", type=Path, metavar="FILE", help="also write one CSV line a request, as they end")
    add("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    from router.simcloud.gpu import find_gpu

    began_s = time.process_time()
    check_numbers(args, OF_BATCHING)
    repository = _repository(args)
    price = find_gpu(args.gpu).usd_per_hour if args.usd_per_hour is None else args.usd_per_hour
    report = _report(args, repository, price)
    interrupted = _serve(args, repository, report)
    summary, cpu_s = report.summary(), time.process_time() - began_s
    if args.json:
        print(json.dumps({**summary.as_dict(), "cpu_s": cpu_s, "interrupted": interrupted}, indent=2))
    else:
        print("\n".join(_table(summary, cpu_s)))
    if not interrupted:
        return 0
    ended = summary.answered + sum(summary.rejected.values())
    print(f"localchat: Interrupted after {ended:,} requests.", file=sys.stderr)
    return INTERRUPTED


def _serve(args: argparse.Namespace, repository: Repository, report: Report) -> bool:
    """Whether somebody interrupted it."""
    from localchat.commands.progress_bar import progress_bar
    from router.simcloud.dynamic.server import Server

    draw = random.Random(args.seed)
    jobs, total = _jobs(args, draw)
    with (
        each_request(args.per_request, CSV_COLUMNS, _line) as write,
        progress_bar("simulating") as progress,
    ):

        def each(outcome: Outcome) -> None:
            report.add(outcome)
            progress(min(1.0, (outcome.request.id + 1) / total))
            if write is not None:
                write(outcome)

        try:
            Server(repository, _calls(args, jobs, draw), each).run()
        except KeyboardInterrupt:
            return True
    return False


def _report(args: argparse.Namespace, repository: Repository, price: float | None) -> Report:
    from router.simcloud.dynamic.report import Report

    instances = sum(model.instances for model in repository.served)
    within_s = None if args.slo is None else args.slo / 1000
    return Report(instances, within_s=within_s, usd_per_hour=price)


def _repository(args: argparse.Namespace) -> Repository:
    from router.simcloud.dynamic.queue import QueueRule
    from router.simcloud.dynamic.repository import Repository, ServedModel
    from router.simcloud.dynamic.rule import BatchRule

    rule = BatchRule(args.max_batch, sizes(args.preferred), args.max_queue_delay / 1000)
    timeout_s = None if args.timeout is None else args.timeout / 1000
    queue = QueueRule(args.queue_limit, timeout_s, args.on_timeout)
    models = [
        ServedModel(name, _cost(args, name), rule, version or 1, args.instances, queue)
        for name, version in dict.fromkeys(_named(args))
    ]
    return Repository(models, latest=None)


def _named(args: argparse.Namespace) -> list[tuple[str, int | None]]:
    pairs = [text.partition(":") for text in args.model or ["bert-base"]]
    if not all(version.isdigit() for _, colon, version in pairs if colon):
        raise UsageError("A model's version is a number.", "Write --model bert-base:2.")
    return [(name, int(version) if version else None) for name, _, version in pairs]


def _cost(args: argparse.Namespace, name: str) -> BatchCost:
    from router.simcloud.dynamic.batch_cost import EncoderBatch, LinearBatch, PaddedGeneration
    from router.simcloud.encoder import find_encoder
    from router.simcloud.gpu import find_gpu
    from router.simcloud.llm import LLMS
    from router.simcloud.roofline import Roofline

    if args.linear is not None:
        try:
            fixed_ms, per_request_ms = (float(part) for part in args.linear.split(","))
        except ValueError as error:
            raise UsageError(f"{args.linear!r} is not A,B.", "Two numbers: --linear 1.2,0.13.") from error
        return LinearBatch(fixed_ms / 1000, per_request_ms / 1000)
    gpu = find_gpu(args.gpu)
    if name.lower() in LLMS:
        return PaddedGeneration(Roofline(LLMS[name.lower()], gpu))
    return EncoderBatch(find_encoder(name), gpu)


def _calls(args: argparse.Namespace, jobs: Iterable[Job], draw: random.Random) -> Iterator[Call]:
    from dataclasses import replace

    from router.simcloud.dynamic.repository import Call

    models = _named(args)
    for number, job in enumerate(jobs):
        name, version = models[number % len(models)]
        request = replace(job.request, priority=0 if draw.random() < args.urgent else 1)
        yield Call(replace(job, request=request), name, version)


def _jobs(args: argparse.Namespace, draw: random.Random) -> tuple[Iterable[Job], int]:
    """And how many they are."""
    from router.simcloud.trace_files import open_trace
    from router.simcloud.workload import fixed, open_loop, poisson

    if args.requests is not None:
        trace = open_trace(args.requests, 0)
        return trace, trace.requests
    if min(args.tokens, args.output_tokens, args.count) < 1:
        raise UsageError("--tokens, --output-tokens and --count are at least 1.")
    lengths = fixed(args.tokens, args.output_tokens)
    return open_loop(poisson(args.rate, draw), lengths, args.count, draw), args.count


def _line(outcome: Outcome) -> list[object]:
    from router.simcloud.dynamic.server import Answered

    asked = [outcome.request.id, outcome.request.arrived_s, outcome.request.priority]
    if not isinstance(outcome, Answered):
        return [*asked, outcome.why, "", "", "", "", "", ""]
    model = outcome.model
    times = [f"{outcome.queued_s:.9f}", f"{outcome.latency_s:.9f}"]
    return [*asked, "completed", model.name, model.version, outcome.instance, outcome.batch, *times]


def _table(summary: BatchingSummary, cpu_s: float) -> Iterator[str]:
    from localchat.commands.table import quantiles

    rows = (("in the queue", summary.queue_s.all), ("until answered", summary.latency_s.all))
    yield from quantiles("milliseconds", rows, 1000)
    yield ""
    yield f"{'requests/s':<26}{summary.requests_per_s:>10,.1f}"
    if summary.output_tokens_per_s > summary.requests_per_s:
        yield f"{'output tokens/s':<26}{summary.output_tokens_per_s:>10,.1f}"
    yield f"{'answered':<26}{summary.answered:>10,}"
    for why, number in summary.rejected.items():
        yield f"{'rejected: ' + why:<26}{number:>10,}"
    yield f"{'mean batch':<26}{summary.mean_batch:>10.1f}"
    yield f"{'GPU busy':<26}{summary.utilisation:>10.1%}"
    if summary.level_attainment is not None:
        yield f"{'service level met':<26}{summary.level_attainment:>10.1%}"
    if summary.usd_per_million_requests is not None:
        yield f"{'USD per million requests':<26}{summary.usd_per_million_requests:>10.3f}"
    yield f"{'simulated in CPU seconds':<26}{cpu_s:>10.2f}"
