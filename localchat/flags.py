"""Exit codes, and the flags that are settings too; shared by the commands."""

from __future__ import annotations

import argparse

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130

SETTING_FLAGS = {
    "model": "model",
    "system": "system",
    "max_tokens": "sampling.max_tokens",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
    "min_p": "sampling.min_p",
    "repeat_penalty": "sampling.repeat_penalty",
    "seed": "sampling.seed",
    "threads": "engine.threads",
    "prefill_threads": "engine.prefill_threads",
    "ctx": "engine.ctx",
    "kv_type": "engine.kv_type",
    "gpu_layers": "engine.gpu_layers",
    "lora": "engine.lora",
    "theme": "ui.theme",
    "route": "routing.mode",
    "offline": "routing.offline",
    "privacy": "routing.privacy",
    "profile": "routing.profile",
}
"""Flag on the command line -> dotted name in settings."""


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags that are settings too (see SETTING_FLAGS); not given means None."""
    model = parser.add_argument_group("model")
    model.add_argument(
        "-m", "--model", metavar="NAME", help="a name from `localchat weights list`, or a path"
    )
    model.add_argument("-s", "--system", metavar="TEXT", help="system prompt")
    model.add_argument("--ctx", type=int, metavar="N", help="context window in tokens (default: the model's)")
    model.add_argument("--threads", type=int, metavar="N", help="decode threads (default: measured)")
    model.add_argument("--prefill-threads", type=int, metavar="N", help="prompt threads (default: all cores)")
    model.add_argument("--kv-type", metavar="TYPE", help="KV cache type: f16, q8_0, q4_0 or f32")
    model.add_argument("--gpu-layers", type=int, metavar="N", help="layers on the GPU, -1 for all")
    model.add_argument("--lora", metavar="FILE", help="LoRA adapter (GGUF)")
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--max-tokens", type=int, metavar="N", help="length of the answer at most")
    sampling.add_argument("--temperature", type=float, metavar="T", help="0 is greedy")
    sampling.add_argument("--top-p", type=float, metavar="P")
    sampling.add_argument("--top-k", type=int, metavar="K", help="0 for all")
    sampling.add_argument("--min-p", type=float, metavar="P")
    sampling.add_argument("--repeat-penalty", type=float, metavar="X")
    sampling.add_argument("--seed", type=int, metavar="N")


def add_route_arguments(parser: argparse.ArgumentParser) -> None:
    """Who answers; settings too. Not given means None."""
    route = parser.add_argument_group("who answers")
    route.add_argument(
        "--route", choices=("local", "auto", "cloud"), help="this machine, the cloud, or whichever is better"
    )
    route.add_argument(
        "--offline", action="store_true", default=None, help="no way off this machine, whatever else is set"
    )
    route.add_argument(
        "--privacy",
        choices=("ask", "redact", "local", "send"),
        help="what becomes of identifiers and secrets in what would leave",
    )
    route.add_argument("--profile", metavar="NAME", help="keeps cached answers and budgets apart")


def setting_flags(args: argparse.Namespace) -> dict[str, object]:
    """What of ``args`` overrides settings, by dotted name."""
    return {name: getattr(args, flag, None) for flag, name in SETTING_FLAGS.items()}
