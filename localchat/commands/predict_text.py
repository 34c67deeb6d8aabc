"""A prediction as people read it: the table, whether it fits, how certain it is, on what it rests.

Owns words and layout. Computes nothing.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from bandwidth_model.rates import Tier
from bandwidth_model.split import Split
from localchat.commands.table import figures, seconds, size, table
from localchat.estimate import Estimate, Row
from localchat.hardware import Hardware
from localchat.plain import plain

LABEL_WIDTH = 12
COLUMNS = ("DEPTH", "THREADS", "TOKENS/S", "80 % BETWEEN", "PROMPT TOKENS/S", "FIRST TOKEN", "FROM COLD")

TIER_MEANS: dict[Tier, str] = {
    "datasheet": "what published runs on other devices let one expect of this one's data sheet",
    "probed": "the memory of this machine was measured, the engine was not",
    "calibrated": "the engine was measured on this machine",
}
MORE_CERTAIN: dict[Tier, str] = {
    "datasheet": "localchat probe (10 s), or localchat calibrate (60 s)",
    "probed": "localchat calibrate (60 s)",
    "calibrated": "every reply of this model makes it so",
}


def lines(found: Estimate, typed: str) -> Iterator[str]:
    """``typed`` is how the person named the model; the commands to go on with name it alike."""
    yield plain(f"{found.shape.name} on {' + '.join(each.name for each in found.hardware)}")
    yield ""
    yield from table([COLUMNS, *(_cells(row) for row in found.rows)], right=range(len(COLUMNS)))
    yield ""
    yield from memory_lines(found.split, found.hardware)
    if found.verdict.status == "does not fit":
        yield _labelled("", "with enough memory the speeds above would hold")
    basis = (found.tier == "datasheet" and found.hardware[0].basis) or TIER_MEANS[found.tier]
    yield _labelled("certainty", f"{found.tier}: {basis}")
    yield _labelled("", "80 % of measured speeds lie between the two figures")
    yield from _rests_on(found)
    yield _labelled("verify", _verify(found, typed))
    yield _labelled("improve", _more_certain(found))


def memory_lines(split: Split, hardware: Sequence[Hardware]) -> Iterator[str]:
    """The verdict, its reason, and what to change."""
    said = split.verdict
    yield _labelled("memory", f"{said.status.upper()}: {said.reason}")
    if said.advice:
        yield _labelled("", said.advice)
    if len(hardware) == 1:
        yield _labelled("", hardware[0].note)
        return
    for device, layers, needs in zip(hardware, split.layers, split.needs, strict=True):
        used = f"{size(needs.total_bytes)} of {size(device.available_bytes)}"
        yield _labelled("", f"{device.name}: {layers} layers, {used}; {device.note}")


def _cells(row: Row) -> tuple[str, ...]:
    found = row.prediction
    return (
        f"{row.depth:,}",
        str(row.threads or "-"),
        figures(found.decode_tokens_per_s),
        f"{figures(found.low)} - {figures(found.high)}",
        figures(found.prefill_tokens_per_s),
        seconds(found.warm.ttft_s),
        seconds(found.cold.ttft_s),
    )


def _rests_on(found: Estimate) -> Iterator[str]:
    shape, first = found.shape, found.rows[0].prediction
    kinds = sorted(shape.bytes_by_quantization.items(), key=lambda item: -item[1])
    types = ", ".join(f"{name} {size(nbytes)}" for name, nbytes in kinds[:4] if nbytes >= 0.005 * kinds[0][1])
    kind = found.question.kv_type or shape.kv_type
    yield _labelled("rests on", f"{size(shape.bytes_per_token)} of weights read for a token ({types})")
    cache = shape.kv_bytes_per_token(kind) / 1e3
    yield _labelled("", f"{cache:,.1f} kB of cache for each token of context ({kind})")
    reached = shape.bytes_per_token / first.basis.terms.weights_s / 1e9
    yield _labelled(
        "", f"weights at {figures(reached)} GB/s, prompts of {found.question.prompt_tokens:,} tokens"
    )


def _verify(found: Estimate, typed: str) -> str:
    name = shlex.quote(plain(typed))
    where = "" if all(each.is_this_machine for each in found.hardware) else ", on that hardware"
    if typed.startswith("hf:"):
        return f"localchat weights pull {name}, then localchat bench {shlex.quote(found.shape.name)}{where}"
    if not found.shape.architecture:  # of the catalogue: there is no file yet
        return f"localchat bench FILE{where}, once its file is there"
    return f"localchat bench {name}{where}"


def _more_certain(found: Estimate) -> str:
    if all(each.is_this_machine for each in found.hardware):
        return MORE_CERTAIN[found.tier]
    return "localchat probe on that machine (10 s), or localchat calibrate (60 s)"


def _labelled(label: str, text: str) -> str:
    return f"{label:<{LABEL_WIDTH}}{plain(text)}"
