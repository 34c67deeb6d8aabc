"""The command line: what can be asked for, and which module answers.

Imports nothing heavy: every command's work is imported when it runs.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from localchat import __version__
from localchat.errors import LocalchatError, UsageError

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130

COMMANDS = {
    "chat": "the terminal chat (also what plain `localchat` opens)",
    "ask": "one answer on standard output",
    "history": "list, search, show, export and delete conversations",
    "weights": "list, pull, inspect and remove model files",
    "doctor": "what is installed, which CPU features are used, where files are",
    "completion": "print a completion script for your shell",
}
"""Each is a module of localchat.commands with add_arguments(parser) and run(args) -> exit code."""

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
}
"""Flag on the command line -> dotted name in settings."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0, 1 failed, 2 wrong usage, 130 interrupted."""
    args = parse(sys.argv[1:] if argv is None else argv)
    command = importlib.import_module(f"localchat.commands.{args.command}")
    try:
        return int(command.run(args))
    except UsageError as error:
        return _complain(error, WRONG_USAGE)
    except LocalchatError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader had enough, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Arguments with ``command`` set; plain options mean the chat."""
    words = list(argv)
    if not words or (words[0].startswith("-") and words[0] not in ("-h", "--help", "--version")):
        words.insert(0, "chat")
    return build_parser(words[0]).parse_args(words)


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """The parser; with ``chosen`` only that command's arguments are filled in."""
    parser = argparse.ArgumentParser(
        prog="localchat",
        description="A private chat in the terminal, run by a 4-bit model on this machine.",
        epilog="`localchat COMMAND --help` lists a command's options.",
    )
    parser.add_argument("--version", action="version", version=f"localchat {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        if chosen in (None, name):
            importlib.import_module(f"localchat.commands.{name}").add_arguments(command)
    return parser


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


def setting_flags(args: argparse.Namespace) -> dict[str, object]:
    """What of ``args`` overrides settings, by dotted name."""
    return {name: getattr(args, flag, None) for flag, name in SETTING_FLAGS.items()}


def _complain(error: LocalchatError, code: int) -> int:
    print(f"localchat: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
