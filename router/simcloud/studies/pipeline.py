"""Tokenise, infer and detokenise in one process or in three, by batch and GPU.

Owns the workload: a batch of equal requests that are all there at the start, 25 us of CPU for
each sequence and step. Whole engine runs, prompts included, not a formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from router.simcloud.additions import Additions
from router.simcloud.deployment import Deployment, build
from router.simcloud.host import HostWork
from router.simcloud.loop import Loop
from router.simcloud.metrics import Summary
from router.simcloud.request import Job, Request
from router.simcloud.studies.sweep import Row, lines, sweep
from router.simcloud.studies.table import Table

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


def run(seed: int, progress: Callable[[float], None]) -> Iterator[Table]:
    """Nothing is drawn: every seed gives the same."""
    points = [(gpu, batch, *lengths) for gpu in GPUS for lengths in LENGTHS for batch in BATCHES]
    return sweep(points, lambda point: _compared(*point), _table, progress)


def _table(rows: list[Row]) -> Table:
    return Table(
        title="Asynchronous against serial host work",
        x_label="batch",
        y_label="throughput gained by overlapping, %",
        series=lines(rows, "GPU, tokens", "batch", "faster, %"),
        notes=(
            f"{MODEL}, all requests there at the start, whole runs; host work {HOST_S * 1e6:.0f} us for each"
            " sequence and step. The published workload's lengths are not known.",
            "Agrees: an H100 with a batch of 256 gains 42.5 % with short and 27.3 % with longer contexts,"
            " around the published 35; more with faster GPUs and larger batches.",
        ),
        published=PUBLISHED,
        rows=tuple(rows),
    )


def _compared(gpu: str, batch: int, prompt: int, answer: int) -> Row:
    serial, overlapped = (
        serve(gpu, batch, prompt, answer, HostWork(HOST_S, overlapped=overlapped))
        for overlapped in (False, True)
    )
    gain = overlapped.output_tokens_per_s / serial.output_tokens_per_s - 1
    return {
        "GPU, tokens": f"{gpu}, {prompt}+{answer}",
        "batch": batch,
        "serial tok/s": round(serial.output_tokens_per_s, 1),
        "async tok/s": round(overlapped.output_tokens_per_s, 1),
        "serial ms": round(1000 * (serial.tpot_s.mean or 0.0), 2),
        "async ms": round(1000 * (overlapped.tpot_s.mean or 0.0), 2),
        "faster, %": round(100 * gain, 1),
    }


def serve(gpu: str, batch: int, prompt: int, answer: int, host: HostWork) -> Summary:
    options = {"max_sequences": batch, "token_budget": max(2048, batch), "asynchronous": False}
    parts = build(Deployment(MODEL, gpu, additions=Additions(host=host), options=options))
    jobs = (Job(Request(number, 0.0, prompt, answer), answer) for number in range(batch))
    Loop([parts.engine], jobs).run()
    return parts.recorder.summary()
