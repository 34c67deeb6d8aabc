"""Speculative decoding by batch: several tokens a step while the GPU has arithmetic to spare.

Owns the workload (equal requests that are all there at the start) and which drafts are
compared. Acceptance is a parameter here: how good a draft model is, no simulation knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from router.simcloud.additions import NONE, Additions
from router.simcloud.deployment import Deployment, build
from router.simcloud.loop import Loop
from router.simcloud.metrics import Summary
from router.simcloud.request import Job, Request
from router.simcloud.speculation import Speculation
from router.simcloud.studies.sweep import Row, lines, sweep
from router.simcloud.studies.table import Table

NAME = "speculative"
SUMMARY = "speculative decoding with a draft model and with n-grams, by batch and acceptance"

MODEL, GPU, DRAFT = "llama-3-8b", "a100", "llama-3.2-1b"
BATCHES = (1, 8, 32, 64, 128, 256)
PROMPT, ANSWER = 128, 256
DRAFTS: tuple[tuple[str | None, int, float], ...] = (  # model, tokens drafted, acceptance
    (DRAFT, 2, 0.8),
    (DRAFT, 4, 0.6),
    (DRAFT, 4, 0.8),
    (DRAFT, 8, 0.8),
    (None, 4, 0.4),
)

PUBLISHED = (
    "Tokens a step, with a drafts and acceptance p each: (1 - p^(a+1)) / (1 - p) (Leviathan et al., 2023).",
    "The same paper: 2-3 times faster for one sequence at a time (T5-XXL).",
)


def run(seed: int, progress: Callable[[float], None]) -> Iterator[Table]:
    plain: dict[int, Summary] = {}
    points = [(drafts, batch) for drafts in DRAFTS for batch in BATCHES]
    return sweep(
        points, lambda point: _measure(*point, seed, plain), lambda rows: _table(rows, seed), progress
    )


def _measure(drafts: tuple[str | None, int, float], batch: int, seed: int, plain: dict[int, Summary]) -> Row:
    draft, tokens, acceptance = drafts
    if batch not in plain:
        plain[batch] = serve(NONE, batch)
    speculation = Speculation(tokens, acceptance, seed)
    label = f"{draft or 'n-grams'} x{tokens}, {acceptance:.0%}"
    drafted = serve(Additions(speculation=speculation, draft=draft), batch)
    return _row(label, batch, speculation, plain[batch], drafted)


def _table(rows: list[Row], seed: int) -> Table:
    return Table(
        title="Speculative decoding by batch",
        x_label="batch",
        y_label="throughput against plain decoding",
        series=lines(rows, "draft", "batch", "times"),
        notes=(
            f"{MODEL} on {GPU}, {PROMPT} + {ANSWER} tokens, all there at the start; seed {seed}. Drafts: by"
            " which model, how many a step, how many of them are accepted.",
            "Agrees nearly: 1.9 times for one sequence (4 drafts, 80 %) against 2 to 3 there; drafts of a 1B"
            " model for an 8B one are not as cheap as T5-small's for T5-XXL.",
            "Below 1 speculation costs throughput: the pass over all drafts is arithmetic that a full batch"
            " has no room for. A draft model also takes its memory from the KV cache.",
            "Acceptance is the same for every token; real text has easy and hard stretches.",
        ),
        published=PUBLISHED,
        rows=tuple(rows),
    )


def serve(additions: Additions, batch: int) -> Summary:
    options = {"max_sequences": batch, "token_budget": 4096, "asynchronous": False}
    parts = build(Deployment(MODEL, GPU, additions=additions, options=options))
    jobs = (Job(Request(number, 0.0, PROMPT, ANSWER), ANSWER) for number in range(batch))
    Loop([parts.engine], jobs).run()
    return parts.recorder.summary()


def _row(label: str, batch: int, speculation: Speculation, plain: Summary, drafted: Summary) -> Row:
    gain = drafted.output_tokens_per_s / plain.output_tokens_per_s
    return {
        "draft": label,
        "batch": batch,
        "a step": round(speculation.mean_tokens, 2),
        "plain/s": round(plain.output_tokens_per_s, 1),
        "tokens/s": round(drafted.output_tokens_per_s, 1),
        "plain ms": round(1000 * (plain.tpot_s.mean or 0.0), 2),
        "TPOT ms": round(1000 * (drafted.tpot_s.mean or 0.0), 2),
        "times": round(gain, 3),
    }
