"""``localchat fit``: which models fit and how fast they are, here or on another device.

Owns the command line, the table and its JSON. Models are the files on this machine and
the catalogue of well-known ones; what is estimated of each is estimate's business.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localchat.commands.given import add_hardware_arguments, chosen_hardware, kv_type, whole
from localchat.commands.table import figures, seconds, size, table
from localchat.errors import LocalchatError, UsageError
from localchat.plain import plain

if TYPE_CHECKING:
    from bandwidth_model.memory import Verdict
    from bandwidth_model.predict import Prediction
    from bandwidth_model.shape import ModelShape
    from localchat.estimate import Question
    from localchat.hardware import Hardware
    from localchat.weights import Catalog

USUAL_CONTEXT = (
    8192  # tokens: a long conversation; what models were trained for is often far more than is used
)
COLUMNS = ("MODEL", "QUANT", "SIZE", "NEEDS", "VERDICT", "TOKENS/S", "80 % BETWEEN", "FIRST TOKEN")


@dataclass(frozen=True, slots=True)
class Fit:
    """``prediction`` None: it does not fit, or this machine's speed is not known."""

    shape: ModelShape
    is_here: bool
    verdict: Verdict
    prediction: Prediction | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", nargs="*", metavar="WORD", help="only models with all of these in their name"
    )
    parser.add_argument("--context", metavar="N", help=f"context to have room for (default: {USUAL_CONTEXT})")
    parser.add_argument("--kv-type", metavar="TYPE", help="type of the KV cache, such as f16 or q8_0")
    parser.add_argument("--quantization", metavar="Q", help="this one for every model, such as Q6_K")
    add_hardware_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.epilog = "`localchat predict MODEL` says more of one of them."


def run(args: argparse.Namespace) -> int:
    from localchat.compose import build_catalog
    from localchat.paths import find_paths

    paths = find_paths()
    question = _question(args)
    hardware = chosen_hardware(args, paths)
    everything = [*_here(build_catalog(paths)), *_well_known(args.quantization)]
    wanted = [pair for pair in everything if _has(pair[0], args.words)]
    if not (wanted or args.json):
        raise LocalchatError(
            f"No model has the words {' '.join(args.words)!r}.", "`localchat fit` lists all."
        )
    found = [_fit(shape, here, hardware, question) for shape, here in wanted]
    if args.json:
        print(json.dumps([_fields(each) for each in found], indent=2))
    else:
        print(*_lines(found, hardware, question), sep="\n")
    return 0


def _has(shape: ModelShape, words: Sequence[str]) -> bool:
    return all(word.lower() in shape.name.lower() for word in words)


def _question(args: argparse.Namespace) -> Question:
    from localchat.estimate import MAX_TOKENS, Question

    context = whole(args.context, "--context", 1, MAX_TOKENS) if args.context else USUAL_CONTEXT
    return Question(context=context, kv_type=kv_type(args.kv_type))


def _here(catalog: Catalog) -> Iterator[tuple[ModelShape, bool]]:
    """The files on this machine; those whose header is broken are named and left out."""
    from dataclasses import replace

    from localchat.weights.shapes import shape_at

    for weights in catalog.list():
        try:
            yield replace(shape_at(weights.path), name=weights.name), True
        except LocalchatError as error:
            print(f"Left out: {plain(str(error))}", file=sys.stderr)
    for problem in catalog.problems:
        print(f"Not looked at: {plain(problem)}", file=sys.stderr)


def _well_known(quantization: str | None) -> Iterator[tuple[ModelShape, bool]]:
    from bandwidth_model.catalogue import known_models
    from bandwidth_model.catalogue_shape import shape_of_known
    from bandwidth_model.mixes import BASE_TYPES

    mix = (quantization or "").upper()
    if mix and mix not in BASE_TYPES:
        raise UsageError(
            f"--quantization {quantization!r} is not known.", f"There are {', '.join(BASE_TYPES)}."
        )
    for model in known_models():
        for each in [mix] if mix else model.mixes:
            yield shape_of_known(model, each), False


def _fit(
    shape: ModelShape,
    is_here: bool,
    hardware: tuple[Hardware, ...],
    question: Question,
) -> Fit:
    from dataclasses import replace

    from localchat.estimate import estimate, memory_of

    context = min(question.context or USUAL_CONTEXT, shape.context_length or USUAL_CONTEXT)
    asked = replace(question, context=context, depths=(min(question.prompt_tokens, context - 1),))
    verdict = memory_of(shape, hardware, asked).verdict
    if verdict.status == "does not fit":
        return Fit(shape, is_here, verdict, None)
    return Fit(shape, is_here, verdict, estimate(shape, hardware, asked).rows[0].prediction)


def _lines(found: Sequence[Fit], hardware: Sequence[Hardware], question: Question) -> Iterator[str]:
    yield plain(f"On {' + '.join(each.name for each in hardware)}")
    for each in hardware:
        yield plain(f"{size(each.available_bytes)} of memory for a model: {each.note}")
    yield ""
    yield from table([COLUMNS, *(_cells(each) for each in found)], right={2, 3, 5, 6, 7})
    yield ""
    tokens = f"{question.context:,} tokens"
    yield f"With a context of {tokens}, or the model's own where that is shorter, and the first token"
    yield f"after a prompt of {question.prompt_tokens}. 80 % of measured speeds lie between the two figures."
    yield "+ is on this machine. More of one of them: localchat predict MODEL"


def _cells(each: Fit) -> tuple[str, ...]:
    shape, verdict, speed = each.shape, each.verdict, each.prediction
    fits: str = verdict.status
    if fits == "fits with a smaller context":
        fits = f"fits with {verdict.largest_context:,} tokens"
    return (
        f"{shape.name}{' +' * each.is_here}",
        shape.quantization,
        size(shape.file_bytes),
        size(verdict.needs.total_bytes),
        fits,
        figures(speed.decode_tokens_per_s) if speed else "-",
        f"{figures(speed.low)} - {figures(speed.high)}" if speed else "-",
        seconds(speed.warm.ttft_s) if speed else "-",
    )


def _fields(each: Fit) -> dict[str, object]:
    shape, verdict, speed = each.shape, each.verdict, each.prediction
    return {
        "model": shape.name,
        "quantization": shape.quantization,
        "on_this_machine": each.is_here,
        "parameters": shape.parameters,
        "file_bytes": shape.file_bytes,
        "needed_bytes": verdict.needs.total_bytes,
        "available_bytes": verdict.available_bytes,
        "status": verdict.status,
        "fits": verdict.fits,
        "context": verdict.context,
        "largest_context": verdict.largest_context,
        "advice": verdict.advice,
        "tier": speed.tier if speed else None,
        "decode_tokens_per_s": speed.decode_tokens_per_s if speed else None,
        "low": speed.low if speed else None,
        "high": speed.high if speed else None,
        "prefill_tokens_per_s": speed.prefill_tokens_per_s if speed else None,
        "ttft_s": speed.warm.ttft_s if speed else None,
    }
