"""The ledger as commands read it: opened in its place, its errors told as a command's."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from localchat.errors import LocalchatError

if TYPE_CHECKING:
    from router.ledger import Ledger

DAY_S = 86_400


@contextmanager
def open_record() -> Iterator[Ledger]:
    """Nothing is made by looking. Raises LocalchatError for a ledger that cannot be read."""
    from localchat.paths import find_paths
    from router.errors import RouterError
    from router.ledger import Ledger

    with Ledger(find_paths().ledger) as ledger:
        try:
            yield ledger
        except RouterError as error:
            raise LocalchatError(error.message, error.next_step) from error


def add_days(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--days", type=_days, metavar="N", help="only answers of the last N days")


def since(args: argparse.Namespace) -> float:
    return 0.0 if args.days is None else time.time() - args.days * DAY_S


def _days(text: str) -> float:
    try:
        days = float(text)
    except ValueError:
        days = 0.0
    if not 0 < days < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days above 0")
    return days


def number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**63:  # what SQLite can count
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
