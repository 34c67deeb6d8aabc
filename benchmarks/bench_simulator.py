"""The simulated cloud against a real vLLM run and a peer's figures, and how fast it simulates.

``--data DIR`` (or LOCALCHAT_SERVING_DATA) is a folder with real_vllm/, compare/ as published by
LLMServingSim and vidur; without it only the speed on made-up requests is measured. Relative errors are
(simulated - real) / real. No constant is fitted to the runs: kernel tables are as measured, the roofline
has the shares in router/simcloud/gpu.py.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.record import Record, arguments, recording
from router.simcloud.deployment import Deployment, build
from router.simcloud.engine import Engine
from router.simcloud.gpu import find_gpu
from router.simcloud.kv import KvPool
from router.simcloud.llm import find_llm
from router.simcloud.loop import Loop
from router.simcloud.metrics import Recorder, Summary
from router.simcloud.request import Completed, Job, Rejected, Request
from router.simcloud.roofline import Roofline
from router.simcloud.schedulers.static import Static
from router.simcloud.step_cost import LinearCost
from router.simcloud.trace_files import open_trace
from router.simcloud.vidur_tables import LinearOps

RTX4090 = Deployment(model="llama-3.1-8b", gpu="rtx4090", kv_blocks=2588)  # num_gpu_blocks of the run
A100 = Deployment(options={"max_sequences": 128})

PEER = {  # requests/s -> TTFT s, TPOT s, tokens/s; vidur's means for Llama-3-8B on an A100
    "vllm-old": {2: (0.087, 0.0137, 527), 4: (0.105, 0.0196, 1038), 6: (0.131, 0.0312, 1525)},
    "sarathi": {2: (0.081, 0.0127, 527), 4: (0.100, 0.0161, 1040), 6: (0.133, 0.0217, 1530)},
}
SLOWDOWN = {  # requests of the trace -> batch -> longest member of a static batch against the mean
    10_000: {8: 1.98, 16: 2.23, 32: 2.47, 64: 2.75},
    1_000: {8: 1.76, 16: 1.90, 32: 2.07, 64: 2.27},
}
TOKENS = (1, 32, 128, 256, 512, 2048)
LINEAR_MS = {  # GPU, model, vidur's table -> ms of a step's linear ops at TOKENS
    ("a100", "llama-3-8b", "a100/meta-llama/Meta-Llama-3-8B"): (9.7, 10.8, 13.6, 20.2, 34.9, 144),
    ("h100", "llama-2-7b", "h100/meta-llama/Llama-2-7b-hf"): (5.6, 5.8, 6.4, 9.2, 12.0, 40),
}
MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024  # getrusage counts in KiB, on macOS in bytes
NOT_QUEUED_S = 1.0  # a request of the real run that waited less counts as one that did not queue


def simulate(deployment: Deployment, jobs: Iterable[Job]) -> tuple[dict[int, Completed], Summary, float]:
    """Outcomes by request, the summary, and the CPU seconds it took."""
    done: dict[int, Completed] = {}

    def keep(outcome: Completed | Rejected) -> None:
        if isinstance(outcome, Completed):
            done[outcome.request.id] = outcome

    began_s = time.process_time()
    parts = build(deployment, keep)
    Loop([parts.engine], jobs).run()
    return done, parts.recorder.summary(), time.process_time() - began_s


def against_real_run(record: Record, folder: Path) -> None:
    lines = (folder / "requests.jsonl").read_text(encoding="utf-8").splitlines()
    real = [json.loads(line) for line in lines]
    # Two clocks: the first request was queued the moment it arrived. Simulated times count from arrival too.
    zero = real[0]["queued_ts"] - real[0]["arrival_time"]
    ttft = np.array([line["first_token_ts"] - line["arrival_time"] - zero for line in real])
    e2e = np.array([line["last_token_ts"] - line["arrival_time"] - zero for line in real])
    tokens = np.array([line["output_toks"] for line in real])
    waited = np.array([line["scheduled_ts"] - line["queued_ts"] for line in real])
    for name, deployment in {
        "tables": replace(RTX4090, kernels=folder / "kernels"),
        "roofline": RTX4090,
    }.items():
        done, _, _ = simulate(deployment, open_trace(folder / "requests.jsonl"))
        ours = [done[number] for number in range(len(real))]
        pairs = {
            "TTFT": (ttft, np.array([each.ttft_s for each in ours])),
            "TPOT": ((e2e - ttft) / (tokens - 1), np.array([each.tpot_s or 0.0 for each in ours])),
            "end to end": (e2e, np.array([each.e2e_s for each in ours])),
        }
        for what, (measured, simulated) in pairs.items():
            for label, error in _errors(measured, simulated):
                goal = "≤ 4" if label == "p99" else "≤ 2"
                record.row(f"vLLM on RTX 4090, {name}: {what} {label}, |error|", abs(error), "%", goal)
        at_once = waited < NOT_QUEUED_S
        for what, (measured, simulated) in pairs.items():
            error = 100 * (simulated[at_once].mean() / measured[at_once].mean() - 1)
            note = f"{at_once.sum()} requests that waited < {NOT_QUEUED_S:g} s"
            record.row(f"vLLM on RTX 4090, {name}: {what} mean, not queued", float(error), "%", note=note)


def _errors(measured: np.ndarray, simulated: np.ndarray) -> Iterator[tuple[str, float]]:
    yield "mean", float(100 * (simulated.mean() / measured.mean() - 1))
    for quantile in (0.5, 0.9, 0.99):
        ratio = np.quantile(simulated, quantile) / np.quantile(measured, quantile)
        yield f"p{quantile * 100:.0f}", float(100 * (ratio - 1))


def against_peer(record: Record, folder: Path) -> None:
    for policy, rates in PEER.items():
        deployment = replace(A100, policy=policy, kernels=folder, prefix_cache=False)
        for rate, (ttft_s, tpot_s, tokens_per_s) in rates.items():
            _, summary, _ = simulate(deployment, open_trace(folder / f"conv4k_n1000_qps{rate}.csv"))
            found = (summary.ttft_s.mean, summary.tpot_s.mean, summary.output_tokens_per_s)
            wanted = (ttft_s, tpot_s, tokens_per_s)
            for what, ours, theirs in zip(("TTFT", "TPOT", "tokens/s"), found, wanted, strict=True):
                error = 100 * abs((ours or 0.0) / theirs - 1)
                goal = "≤ 2" if what == "tokens/s" else "≤ 5"
                record.row(f"vidur {policy}, {rate} requests/s: {what}, |error|", error, "%", goal)


def against_facts(record: Record, data: Path) -> None:
    """Two laws with numbers: what padding costs a static batch, and what linear ops take."""
    for requests, batches in SLOWDOWN.items():
        jobs = list(open_trace(data / "compare" / f"conv4k_n{requests}_qps6.csv"))
        for batch, expected in batches.items():
            full = jobs[: requests // batch * batch]  # a last batch that is not full says nothing of its size
            mean = sum(job.length for job in full) / len(full)
            found = _static_steps(full, batch) * batch / len(full) / mean
            error = 100 * abs(found / expected - 1)
            record.row(
                f"static, batches of {batch} of {requests:,}: slowdown {found:.3f}, |error|",
                error,
                "%",
                "≤ 1",
            )
    for (gpu, model, place), expected_ms in LINEAR_MS.items():
        path = data / "vidur" / "profiling" / "compute" / place / "mlp.csv"
        linear = LinearOps.read(path, Roofline(find_llm(model), find_gpu(gpu)))
        worst = max(
            100 * abs(1000 * linear.linear_s(tokens) / ms - 1)
            for tokens, ms in zip(TOKENS, expected_ms, strict=True)
        )
        note = "those sums count the embedding in every layer, we once"
        record.row(
            f"linear ops, {model} on {gpu}, worst |error| of {len(TOKENS)} sizes", worst, "%", note=note
        )


def _static_steps(jobs: list[Job], batch: int) -> int:
    """Steps of a static server with all of them there at the start, in order."""
    kv = KvPool(10**9)
    recorder = Recorder(kv.capacity)
    at_once = (job.arriving(0.0) for job in jobs)
    Loop([Engine(Static(batch), LinearCost(0.01), kv, recorder)], at_once).run()
    return recorder.summary().steps


def speed(record: Record, repeats: int, data: Path | None) -> None:
    if data is not None:
        trace = data / "compare" / "conv4k_n10000_qps6.csv"
        for name, deployment in {"roofline": A100, "tables": replace(A100, kernels=data / "compare")}.items():
            rates = [_rate(deployment, open_trace(trace)) for _ in range(repeats)]
            record.row(f"vLLM, 10,000 requests, {name}", rates, "M tokens/CPU s", "≥ 1.5")
    rates = [_rate(Deployment(), made_up(2_000, 50.0, 4_000)) for _ in range(repeats)]
    record.row("vLLM, steady state: 256 answers of 4,000 tokens", rates, "M tokens/CPU s", "≥ 10")


def memory(record: Record) -> None:
    """How much more a ten times longer list needs, when only the summary is asked."""
    peaks = []
    for requests in (10_000, 100_000):
        parts = build(Deployment())
        Loop([parts.engine], made_up(requests, 20.0, 100)).run()
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_BYTES / 1e6)
    record.row("memory of 100,000 requests less that of 10,000", peaks[1] - peaks[0], "MB", "≤ 5")


def _rate(deployment: Deployment, jobs: Iterable[Job]) -> float:
    began_s = time.process_time()
    parts = build(deployment)
    Loop([parts.engine], jobs).run()
    return parts.recorder.summary().output_tokens / (time.process_time() - began_s) / 1e6


def made_up(requests: int, per_s: float, answer_tokens: int) -> Iterator[Job]:
    draw = random.Random(1)
    at_s = 0.0
    for number in range(requests):
        at_s += draw.expovariate(per_s)
        yield Job(Request(number, at_s, 100, answer_tokens), answer_tokens)


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    usual = os.environ.get("LOCALCHAT_SERVING_DATA")
    parser.add_argument("--data", type=Path, default=Path(usual) if usual else None, metavar="DIR")
    args = parser.parse_args()
    with recording("simulator", args) as record:
        if args.data is not None:
            against_real_run(record, args.data / "real_vllm" / "RTX4090" / "Llama-3.1-8B")
            against_peer(record, args.data / "compare")
            against_facts(record, args.data)
        speed(record, args.repeats, args.data)
        memory(record)


if __name__ == "__main__":
    main()
