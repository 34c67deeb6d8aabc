"""Tokenise, infer and detokenise in one process or in three, by batch and GPU.

Owns the workload: a batch of equal requests that are all there at the start, 25 us of CPU for
each sequence and step. Whole engine runs, prompts included, not a formula.
"""

from __future__ import annotations

from collections.abc import Callable

from router.simcloud.additions import Additions
from router.simcloud.deployment import Deployment, build
from router.simcloud.host import HostWork
from router.simcloud.loop import Loop
from router.simcloud.metrics import Summary
from router.simcloud.request import Job, Request
from router.simcloud.studies.table import Series, Table

NAME = "pipeline"
SUMMARY = "asynchronous tokenise, infer and detokenise against one process, by batch and GPU"

MODEL = "llama-3-8b"
HOST_S = 25e-6
GPUS = ("a100", "h100", "h200")
BATCHES = (8, 32, 64, 128, 256)
LENGTHS = ((128, 128), (512, 512))
"""(prompt, answer) tokens: the longer the context, the longer the GPU's step and the less is hidden."""

PUBLISHED = (
    "LightLLM: 25 us of CPU per request and step, H100, batch 256: overlapped about 35 % faster than serial.",
    "The faster the GPU and the larger the batch, the more.",
)


def run(seed: int, progress: Callable[[float], None]) -> Table:
    """Nothing is drawn: every seed gives the same."""
    rows: list[dict[str, float | str]] = []
    lines = []
    points = [(gpu, lengths) for gpu in GPUS for lengths in LENGTHS]
    for done, (gpu, lengths) in enumerate(points, 1):
        found = [(batch, _compared(gpu, batch, *lengths)) for batch in BATCHES]
        rows += [row for _, row in found]
        gains = tuple(float(row["faster, %"]) for _, row in found)
        lines.append(Series(f"{gpu}, {lengths[0]} + {lengths[1]} tokens", tuple(map(float, BATCHES)), gains))
        progress(done / len(points))
    return Table(
        title="Asynchronous against serial host work",
        x_label="batch",
        y_label="throughput gained by overlapping, %",
        series=tuple(lines),
        notes=(
            f"{MODEL}, all requests there at the start, whole runs; host work {HOST_S * 1e6:.0f} us for each"
            " sequence and step. The published workload's lengths are not known.",
        ),
        published=PUBLISHED,
        rows=tuple(rows),
    )


def _compared(gpu: str, batch: int, prompt: int, answer: int) -> dict[str, float | str]:
    serial, overlapped = (
        serve(gpu, batch, prompt, answer, HostWork(HOST_S, overlapped=overlapped))
        for overlapped in (False, True)
    )
    gain = overlapped.output_tokens_per_s / serial.output_tokens_per_s - 1
    return {
        "gpu": gpu,
        "batch": batch,
        "prompt + answer": f"{prompt} + {answer}",
        "serial tokens/s": round(serial.output_tokens_per_s, 1),
        "overlapped tokens/s": round(overlapped.output_tokens_per_s, 1),
        "serial TPOT ms": round(1000 * (serial.tpot_s.mean or 0.0), 2),
        "overlapped TPOT ms": round(1000 * (overlapped.tpot_s.mean or 0.0), 2),
        "faster, %": round(100 * gain, 1),
    }


def serve(gpu: str, batch: int, prompt: int, answer: int, host: HostWork) -> Summary:
    options = {"max_sequences": batch, "token_budget": max(2048, batch), "asynchronous": False}
    parts = build(Deployment(MODEL, gpu, additions=Additions(host=host), options=options))
    jobs = (Job(Request(number, 0.0, prompt, answer), answer) for number in range(batch))
    Loop([parts.engine], jobs).run()
    return parts.recorder.summary()
