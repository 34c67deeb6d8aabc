"""How far a long step is, on one line.

Owns the line: rewritten in place on a terminal, one line for every tenth
elsewhere. Reads what ninja and make print; starts and knows no process.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable
from typing import TextIO

BAR = 24
# Ninja's "[41/140] Building ..." and Make's "[ 41%] Building ...", as pip -v passes them on.
_NINJA = re.compile(r"^\s*\[(\d+)/(\d+)\] ")
_MAKE = re.compile(r"^\s*\[\s*(\d+)%\] ")


def fraction_done(line: str) -> float | None:
    """What a line of build output says of the whole build; None when it says nothing."""
    if ninja := _NINJA.match(line):
        done, total = int(ninja[1]), int(ninja[2])
        return min(1.0, done / total) if total > 2 else None  # [1/2] is CMake looking around
    if make := _MAKE.match(line):
        return min(1.0, int(make[1]) / 100)
    return None


def clock(seconds: float) -> str:
    """Minutes and seconds: 0:07, 12:30."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


class StepLine:
    """The line of one step. ``advance`` with None only lets the clock go on."""

    def __init__(self, title: str, out: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._title, self._out, self._now = title, out, now
        self._started = now()
        self._live = out.isatty()
        self._fraction: float | None = None
        if not self._live:
            self._write(f"{title} ...\n")

    def advance(self, fraction: float | None) -> None:
        """Never goes back: a build that starts another round of counting does not show."""
        before = self._fraction or 0.0
        if fraction is not None:
            self._fraction = max(before, fraction)
        if self._live:
            self._rewrite(self._text())
        elif int(10 * (self._fraction or 0.0)) > int(10 * before):
            self._write(f"  {self._text()}\n")

    def end(self, how: str = "done") -> None:
        took = clock(self._now() - self._started)
        if self._live:
            self._rewrite(f"{self._title}: {how} ({took})")
            self._write("\n")
        else:
            self._write(f"{self._title}: {how} ({took})\n")

    def _text(self) -> str:
        took = clock(self._now() - self._started)
        if self._fraction is None:
            return f"{self._title} ... {took}"
        full = int(BAR * self._fraction)
        return f"{self._title} [{'#' * full}{'-' * (BAR - full)}] {self._fraction:4.0%} {took}"

    def _rewrite(self, text: str) -> None:
        width = shutil.get_terminal_size().columns
        self._write(f"\r\x1b[K{text[: width - 1]}")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
