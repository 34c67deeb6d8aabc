"""The command line: what can be asked for, and which module answers.

Imports nothing heavy: every command's work is imported when it runs.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence

from localchat import __version__
from localchat.errors import LocalchatError, UsageError
from localchat.flags import FAILED, INTERRUPTED, WRONG_USAGE
from localchat.plain import plain

COMMANDS = {
    "chat": "the terminal chat (also what plain `localchat` opens)",
    "ask": "one answer on standard output",
    "cache": "the cloud's answers that were kept: list, forget, and whether keeping them pays",
    "history": "list, search, show, export and delete conversations",
    "weights": "list, pull, inspect and remove model files",
    "predict": "whether a model fits and how fast it will run, before it is loaded or fetched",
    "fit": "which models fit and how fast they are, on this machine or another",
    "devices": "the devices whose speed is known",
    "probe": "measure how fast this machine reads memory and computes",
    "calibrate": "measure the engine here, so that predictions rest on it",
    "calibration": "the record of measurements that predictions rest on",
    "bench": "the engine measured against its prediction",
    "simulate": "what a cloud deployment would do with your requests: latency, throughput, cost",
    "doctor": "what is installed, which CPU features are used, where files are",
    "completion": "print a completion script for your shell",
}
"""Each is a module of localchat.commands with add_arguments(parser) and run(args) -> exit code."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code: 0, 1 failed, 2 wrong usage, 130 interrupted."""
    _prepare_streams()
    try:
        try:
            args = parse(sys.argv[1:] if argv is None else argv)
            command = importlib.import_module(f"localchat.commands.{args.command}")
            return int(command.run(args))
        finally:
            sys.stdout.flush()  # here, where it may fail; at exit Python would print a traceback
    except UsageError as error:
        return _complain(error, WRONG_USAGE)
    except LocalchatError as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader had enough, as `head` does
        _drop_output()
        return FAILED
    except OSError as error:  # a full disk behind standard output, for example
        _drop_output()
        where = f": {error.filename}" if error.filename else ""
        return _complain(LocalchatError(f"{error.strerror or error}{where}."), FAILED)


def _prepare_streams() -> None:
    """Standard streams that were closed lead nowhere, and the answer may hold any character."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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


def _complain(error: LocalchatError, code: int) -> int:
    print(f"localchat: {plain(str(error))}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
