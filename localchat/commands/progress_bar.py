"""How much of a long computation is done: one line on standard error, if that is a terminal.

Owns that line. Does not know what is computed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

CELLS = 30
EVERY_S = 0.1
ESTIMATE_AFTER = 0.05
"""Below this share the time left is not said: it would be a guess."""


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[float], None]]:
    """Call it with the share that is done, as often as you like; the line is wiped at the end."""
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    began_s = shown_s = time.monotonic()

    def show(share: float) -> None:
        nonlocal shown_s
        now_s = time.monotonic()
        if now_s - shown_s >= EVERY_S:
            shown_s = now_s
            print(f"\r{_line(what, share, now_s - began_s)}\x1b[K", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _line(what: str, share: float, spent_s: float) -> str:
    share = min(1.0, max(0.0, share))
    done = round(CELLS * share)
    left = f", {spent_s * (1 - share) / share:.0f} s left" if share >= ESTIMATE_AFTER else ""
    return f"{what} [{'#' * done}{'-' * (CELLS - done)}] {share:.0%}{left}"
