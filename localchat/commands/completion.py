"""``localchat completion``: a completion script for the shell, made by shtab."""

from __future__ import annotations

import argparse

SHELLS = ("bash", "zsh", "fish", "tcsh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)
    parser.epilog = (
        'bash: eval "$(localchat completion bash)"   zsh: localchat completion zsh > ~/.zfunc/_localchat'
    )


def run(args: argparse.Namespace) -> int:
    import shtab

    from localchat.cli import build_parser

    print(shtab.complete(build_parser(), args.shell))
    return 0
