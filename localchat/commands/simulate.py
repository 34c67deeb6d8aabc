"""``localchat simulate``: what a deployment would do with a list of requests.

Owns flags and what they mean together; the simulation is router.simcloud's, the figures shown are
``simulate_summary``'s, the other actions their own modules'. Imports nothing heavy before it runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.commands import simulate_additions, simulate_batching, simulate_study, simulate_workload
from localchat.commands.per_request import each_request
from localchat.commands.simulate_numbers import OF_A_RUN, check_numbers
from localchat.commands.simulate_summary import print_summary
from localchat.errors import UsageError
from localchat.flags import INTERRUPTED

if TYPE_CHECKING:
    from router.simcloud.deployment import Deployment
    from router.simcloud.fleet import Fleet, Service
    from router.simcloud.request import Completed, Job, Rejected
    from router.simcloud.retries import Retries
    from router.simcloud.workload import ClosedLoop

CSV_COLUMNS = (
    "id",
    "arrived_at",
    "num_prefill_tokens",
    "num_decode_tokens",
    "status",
    "queue_s",
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "finished_at",
    "preemptions",
    "cached_tokens",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    summary = "compare policies, memory, order, GPUs: tables and plots beside published figures"
    simulate_study.add_arguments(actions.add_parser("study", help=summary))
    run_parser = actions.add_parser("run", help="serve a list of requests with one deployment")
    add = run_parser.add_argument
    add(
        "--requests",
        type=Path,
        required=True,
        metavar="FILE",
        help="CSV or JSON lines: vidur, Azure, Mooncake, LLMServingSim",
    )
    add("--model", default="llama-3-8b", metavar="NAME", help="default: %(default)s")
    add("--gpu", default="a100", metavar="NAME", help="a100, h100, rtx4090 ... default: %(default)s")
    add("--gpus", type=int, default=1, metavar="N", help="GPUs that share the model, default: 1")
    add("--policy", default="vllm", metavar="NAME", help="how it batches, default: %(default)s")
    add("--kernels", type=Path, metavar="DIR", help="measured kernel times instead of a roofline")
    add("--max-num-seqs", type=int, metavar="N", help="sequences in a batch at most")
    add("--token-budget", type=int, metavar="N", help="tokens computed in a step at most")
    add("--kv-blocks", type=int, metavar="N", help="default: what fits beside the weights")
    add("--block-size", type=int, metavar="N", help="tokens in a block, default: 16")
    add("--admission", metavar="NAME", help="greedy, reserve, future-peak, past-future, predicted")
    add("--order", metavar="NAME", help="of the queue: fcfs, sjf (shortest predicted first), priority")
    add("--predict", metavar="HOW", help="lengths that sjf and admission see: oracle, or noise such as 0.5")
    add("--tokens-in-flight", type=int, metavar="N", help="admit while prompts and bounds stay within N")
    add(
        "--swap", type=float, metavar="GB/S", help="preempted KV goes over a link instead of being recomputed"
    )
    add("--max-tokens", type=int, default=0, metavar="N", help="bound on answers that schedulers see")
    add("--no-prefix-cache", action="store_true", help="forget freed blocks at once")
    add("--no-async-scheduling", action="store_true", help="vllm: plan a step only when the last has ended")
    add("--clients", type=int, metavar="N", help="N clients ask one after the other; no times of arrival")
    add("--think", type=float, default=0.0, metavar="S", help="of a client between answer and next request")
    add("--replicas", type=int, default=1, metavar="N", help="copies of all this, default: 1")
    add("--balancer", default="round-robin", metavar="NAME", help="round-robin, least-loaded, prefix-aware")
    add(
        "--prefill-replicas",
        type=int,
        default=0,
        metavar="N",
        help="these compute prompts, the others answers",
    )
    add("--prefill-gpus", type=int, metavar="N", help="GPUs that share the model in each of these")
    add("--link", type=float, default=25.0, metavar="GB/S", help="between them, shared; default: %(default)s")
    add("--adapters", type=int, default=0, metavar="N", help="requests use N LoRA adapters in turn")
    add("--lora-rank", type=int, default=16, metavar="N", help="of each adapter, default: %(default)s")
    add("--max-loras", type=int, default=32, metavar="N", help="different adapters in a step at most")
    add("--samples", type=int, default=1, metavar="N", help="answers to each prompt, default: 1")
    add("--seed", type=int, default=0, metavar="N", help="for policies that draw lots")
    add("--slo-ttft", type=float, metavar="S", help="service level: first token within S seconds")
    add("--slo-tpot", type=float, metavar="S", help="service level: seconds per further token")
    add("--slo-e2e", type=float, metavar="S", help="service level: whole answer within S seconds")
    add("--usd-per-hour", type=float, metavar="USD", help="of one GPU")
    add("--per-request", type=Path, metavar="FILE", help="also write one CSV line a request, as they end")
    simulate_additions.add_arguments(add)
    add("--json", action="store_true", help="print JSON instead of a table")
    simulate_batching.add_arguments(actions)
    simulate_workload.add_arguments(actions)


def run(args: argparse.Namespace) -> int:
    from router.errors import InvalidSimulation

    try:
        actions = {
            "run": _run,
            "batching": simulate_batching.run,
            "study": simulate_study.run,
            "workload": simulate_workload.run,
        }
        return actions[args.action](args)
    except InvalidSimulation as error:
        raise UsageError(error.message, error.next_step) from error


def _run(args: argparse.Namespace) -> int:
    from router.simcloud.fleet import open_fleet
    from router.simcloud.trace_files import open_trace

    began_s = time.process_time()
    check_numbers(args, OF_A_RUN)
    trace = open_trace(args.requests, args.max_tokens)
    retries = simulate_additions.retries(args)
    if retries and (args.replicas > 1 or args.prefill_replicas or args.samples > 1 or args.clients):
        raise UsageError(
            "Retries are simulated on one replica, with one sample, without --clients.",
            "Leave out the others.",
        )
    with each_request(args.per_request, CSV_COLUMNS, _line) as each:
        deployment, jobs = _variants(args, _with_predictions(trace, args.predict, args.seed))
        service = open_fleet(deployment, _fleet(args), each, _prefill(args, deployment))
        interrupted = _serve(service, _clients(args, jobs), trace.requests, retries)
    price = service.parts[0].recorder.usd_per_hour
    summary, replicas = service.summary(), service.replicas()
    valid = None if retries is None else retries.summary(summary, price)
    print_summary(summary, replicas, valid, time.process_time() - began_s, args.json, interrupted)
    if not interrupted:
        return 0
    ended = summary.completed + summary.rejected
    print(f"localchat: Interrupted after {ended:,} of {trace.requests:,} requests.", file=sys.stderr)
    return INTERRUPTED


def _clients(args: argparse.Namespace, jobs: Iterable[Job]) -> Iterable[Job] | ClosedLoop:
    """The jobs, or those who ask them one after the other."""
    from router.simcloud.workload import ClosedLoop

    return jobs if args.clients is None else ClosedLoop(args.clients, args.think, iter(jobs))


def _serve(
    service: Service, jobs: Iterable[Job] | ClosedLoop, requests: int, retries: Retries | None
) -> bool:
    """Whether somebody interrupted it."""
    from localchat.commands.progress_bar import progress_bar
    from router.simcloud.workload import ClosedLoop

    try:
        with progress_bar("simulating") as progress:

            def tell(arrived: int, at_s: float) -> None:
                progress(min(1.0, arrived / requests))

            if isinstance(jobs, ClosedLoop):
                service.run_closed(jobs, tell)
            elif retries is None:
                service.run(jobs, tell)
            else:
                retries.over(service.parts[0].engine, jobs).run(tell)
    except KeyboardInterrupt:
        return True
    return False


def _fleet(args: argparse.Namespace) -> Fleet:
    from router.simcloud.fleet import Fleet

    return Fleet(args.replicas, args.balancer, args.prefill_replicas, args.link * 1e9)


def _prefill(args: argparse.Namespace, deployment: Deployment) -> Deployment | None:
    """What a prefill replica is, where it differs from the others."""
    from dataclasses import replace

    if args.prefill_gpus is None:
        return None
    if not args.prefill_replicas:
        raise UsageError("--prefill-gpus says what prefill replicas are.", "Give --prefill-replicas.")
    return replace(deployment, gpus=args.prefill_gpus)


def _variants(args: argparse.Namespace, jobs: Iterable[Job]) -> tuple[Deployment, Iterable[Job]]:
    """Adapters and several samples, where they are asked for."""
    from dataclasses import replace

    from router.simcloud.fleet import check_policy, over_adapters, sampled
    from router.simcloud.llm import find_llm
    from router.simcloud.lora import Lora, adapter_bytes

    deployment = _deployment(args)
    if args.samples < 1 or args.adapters < 0 or args.lora_rank < 1:
        raise UsageError("--samples and --lora-rank are at least 1, --adapters is not negative.")
    if args.adapters:
        check_policy(deployment, "Adapters")
        size = adapter_bytes(find_llm(args.model), args.lora_rank)
        deployment = replace(deployment, lora=Lora(size, args.max_loras))
        jobs = over_adapters(jobs, args.adapters)
    if args.samples > 1:
        check_policy(deployment, "Several samples")
        if args.samples > (args.max_num_seqs or 256) or args.prefill_replicas:
            raise UsageError("--samples exceeds --max-num-seqs, or is used with --prefill-replicas.")
        jobs = sampled(jobs, args.samples)
    return deployment, jobs


def _with_predictions(jobs: Iterable[Job], how: str | None, seed: int) -> Iterable[Job]:
    from router.simcloud.ordering import noisy, oracle, predicted

    if how is None:
        return jobs
    if how == "oracle":
        return predicted(jobs, oracle)
    try:
        spread = float(how)
    except ValueError:
        spread = -1.0
    if not 0 <= spread < 100:
        raise UsageError(f"--predict {how}: it is oracle, or the spread of the error, from 0 on.")
    return predicted(jobs, noisy(spread, seed))


def _deployment(args: argparse.Namespace) -> Deployment:
    from router.simcloud.deployment import Deployment
    from router.simcloud.metrics import ServiceLevel

    options: dict[str, object] = {
        "max_sequences": args.max_num_seqs,
        "token_budget": args.token_budget,
        "admission": args.admission,
        "order": args.order,
        "tokens_in_flight": args.tokens_in_flight,
        "seed": args.seed,
        **simulate_additions.policy_options(args),
    }
    if args.no_async_scheduling:
        options["asynchronous"] = False
    level = ServiceLevel(args.slo_ttft, args.slo_tpot, args.slo_e2e)
    return Deployment(
        model=args.model,
        gpu=args.gpu,
        policy=args.policy,
        kernels=args.kernels,
        kv_blocks=args.kv_blocks,
        block_tokens=args.block_size,
        gpus=args.gpus,
        usd_per_hour=args.usd_per_hour,
        prefix_cache=not args.no_prefix_cache,
        swap_bytes_per_s=None if args.swap is None else args.swap * 1e9,
        level=level if level != ServiceLevel() else None,
        additions=simulate_additions.additions(args),
        options=options,
    )


def _line(outcome: Completed | Rejected) -> list[object]:
    from router.simcloud.request import Completed

    request = outcome.request
    asked = [request.id, request.arrived_s, request.prompt_tokens]
    if not isinstance(outcome, Completed):
        return [*asked, 0, "rejected", "", "", "", "", "", 0, 0]
    times = [outcome.queued_s, outcome.ttft_s, outcome.tpot_s, outcome.e2e_s, outcome.finished_s]
    shown = ["" if seconds is None else f"{seconds:.9f}" for seconds in times]
    return [*asked, outcome.output_tokens, "completed", *shown, outcome.preemptions, outcome.cached_tokens]
