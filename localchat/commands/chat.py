"""``localchat``: opens the terminal chat."""

from __future__ import annotations

import argparse
import os
import sys

from localchat.errors import UsageError
from localchat.flags import add_model_arguments, add_route_arguments, setting_flags


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_model_arguments(parser)
    add_route_arguments(parser)
    chat = parser.add_argument_group("chat")
    chat.add_argument("-c", "--continue", dest="go_on", action="store_true", help="the latest conversation")
    chat.add_argument("--inline", action="store_true", help="below the prompt instead of the whole screen")
    chat.add_argument("--incognito", action="store_true", help="keep nothing on disk")
    chat.add_argument("--theme", metavar="NAME", help="colour theme")


def run(args: argparse.Namespace) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty() and sys.stderr.isatty()):  # drawn on stderr
        raise UsageError("The chat needs a terminal.", "In pipes and scripts use `localchat ask`.")
    from localchat.compose import build
    from localchat.paths import find_paths
    from localchat.settings import load_settings

    paths = find_paths()
    settings = load_settings(paths.settings, os.environ, setting_flags(args))
    program = build(settings, paths, incognito=args.incognito)
    latest = program.history.latest() if args.go_on else None

    from localchat.tui.app import run_app

    run_app(program, inline=args.inline, initial_conversation=latest.id if latest else None)
    return 0
