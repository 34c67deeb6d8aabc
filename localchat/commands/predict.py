"""``localchat predict``: whether a model fits and how fast it will run, before anything is loaded.

Owns the command line and the JSON; what people read is predict_text's business. Every
estimate names its tier, its interval, its inputs and the command that verifies it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from localchat.commands.given import add_hardware_arguments, chosen_hardware, kv_type, whole, wholes

if TYPE_CHECKING:
    from bandwidth_model.split import Split
    from localchat.estimate import Estimate, Question, Row
    from localchat.hardware import Hardware


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a name from `localchat weights list` or `localchat fit`, a GGUF file, an MLC folder, or "
        "hf:OWNER/REPO/FILE.gguf[@REVISION], of which only the header is fetched",
    )
    parser.add_argument("--depth", nargs="+", metavar="N", help="tokens of context before (default: several)")
    parser.add_argument("--threads", nargs="+", metavar="N", help="decode threads (default: all cores)")
    parser.add_argument("--prompt-tokens", metavar="N", help="prompt before the first token (default: 512)")
    parser.add_argument("--context", metavar="N", help="context to have room for (default: the model's)")
    parser.add_argument("--kv-type", metavar="TYPE", help="type of the KV cache, such as f16 or q8_0")
    add_hardware_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.epilog = (
        'A model too large for one device: --device "RTX 4090" --device this puts as many layers as fit '
        "on the card and the rest into the memory of this machine."
    )


def run(args: argparse.Namespace) -> int:
    from localchat.commands import predict_text
    from localchat.compose import build_catalog
    from localchat.estimate import estimate
    from localchat.hardware import check_threads
    from localchat.paths import find_paths
    from localchat.weights.shapes import find_shape

    paths = find_paths()
    question = _question(args)
    hardware = chosen_hardware(args, paths)
    check_threads(question.threads, hardware)
    shape = find_shape(args.model, build_catalog(paths), os.environ)
    found = estimate(shape, hardware, question)
    if args.json:
        print(json.dumps(as_json(found), indent=2))
    else:
        print(*predict_text.lines(found, args.model), sep="\n")
    return 0


def _question(args: argparse.Namespace) -> Question:
    from localchat.estimate import MAX_TOKENS, Question
    from localchat.settings import MAX_THREADS

    given = Question(
        depths=wholes(args.depth, "--depth", 0, MAX_TOKENS),
        threads=wholes(args.threads, "--threads", 1, MAX_THREADS) or (None,),
        context=whole(args.context, "--context", 1, MAX_TOKENS) if args.context else None,
        kv_type=kv_type(args.kv_type),
    )
    if args.prompt_tokens is None:
        return given
    from dataclasses import replace

    return replace(given, prompt_tokens=whole(args.prompt_tokens, "--prompt-tokens", 1, MAX_TOKENS))


def as_json(found: Estimate) -> dict[str, object]:
    """What scripts read; keys may be added, none change."""
    shape = found.shape
    kind = found.question.kv_type or shape.kv_type
    return {
        "model": shape.name,
        "tier": found.tier,
        "bytes_per_token": round(shape.bytes_per_token),
        "kv_bytes_per_token": round(shape.kv_bytes_per_token(kind)),
        "memory": memory_as_json(found.split, found.hardware),
        "rows": [_row_as_json(row) for row in found.rows],
        "inputs": _inputs_as_json(found, kind),
    }


def memory_as_json(split: Split, hardware: Sequence[Hardware]) -> dict[str, object]:
    said = split.verdict
    return {
        "needed_bytes": said.needs.total_bytes,
        "available_bytes": said.available_bytes,
        "fits": said.fits,
        "status": said.status,
        "context": said.context,
        "largest_context": said.largest_context,
        "reason": said.reason,
        "advice": said.advice,
        "devices": [
            {
                "name": device.name,
                "layers": layers,
                "needed_bytes": needs.total_bytes,
                "available_bytes": device.available_bytes,
                "note": device.note,
            }
            for device, layers, needs in zip(hardware, split.layers, split.needs, strict=True)
        ],
    }


def _row_as_json(row: Row) -> dict[str, object]:
    found = row.prediction
    return {
        "depth": row.depth,
        "threads": row.threads,
        "decode_tokens_per_s": found.decode_tokens_per_s,
        "low": found.low,
        "high": found.high,
        "prefill_tokens_per_s": found.prefill_tokens_per_s,
        "ttft_s": found.warm.ttft_s,
        "cold_ttft_s": found.cold.ttft_s,
        "prefill_low": found.prefill_low,
        "prefill_high": found.prefill_high,
        "kv_read_bytes": round(found.basis.kv_read_bytes),
    }


def _inputs_as_json(found: Estimate, kind: str) -> dict[str, object]:
    shape = found.shape
    return {
        "quantization": shape.quantization,
        "bytes_per_token_by_type": {
            name: round(count) for name, count in shape.bytes_by_quantization.items()
        },
        "parameters": shape.parameters,
        "active_parameters": shape.active_parameters,
        "file_bytes": shape.file_bytes,
        "layers": len(shape.layers),
        "kv_type": kind,
        "prompt_tokens": found.question.prompt_tokens,
    }
