"""The one line that says what is going on.

Owns the words and the meter, and how they share the width; computes nothing
but the rate of arriving tokens. Parts stand in order of importance and the
least important goes first when the line is narrow.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from localchat.tui.safe_text import one_line
from router.request import Progress

RATE_WINDOW_S = 1.0
METER_CELLS = 8
_STAGES = {"load": "loading the model", "measure": "measuring this machine", "prefill": "reading the prompt"}


class TokenRate:
    """Tokens per second over the last second. Each token counts at the moment it arrived."""

    def __init__(self) -> None:
        self._arrivals: deque[tuple[float, int]] = deque()

    def add(self, now_s: float, tokens: int) -> None:
        if tokens:
            self._arrivals.append((now_s, tokens))

    def per_s(self, now_s: float) -> float | None:
        """None until two moments can be compared."""
        while len(self._arrivals) > 2 and self._arrivals[0][0] < now_s - RATE_WINDOW_S:
            self._arrivals.popleft()
        if len(self._arrivals) < 2:
            return None
        span_s = self._arrivals[-1][0] - self._arrivals[0][0]
        # The first arrival begins the span; its tokens were computed before it.
        tokens = sum(count for _, count in self._arrivals) - self._arrivals[0][1]
        return tokens / span_s if span_s > 0 else None


@dataclass(frozen=True, slots=True)
class Status:
    """What the line says. ``used_tokens`` None: not known yet.

    ``predicted`` is the band for ``tokens_per_s``; ``estimate``, what sending would cost,
    stands in for the state while nothing else is going on. ``mode`` is who may answer,
    ``spent`` the budget for those elsewhere.
    """

    state: str = "ready"
    tokens_per_s: float | None = None
    used_tokens: int | None = None
    window_tokens: int | None = None
    model: str = ""
    quantization: str = ""
    predicted: str = ""
    estimate: tuple[str, ...] = ()
    mode: str = ""
    spent: str = ""

    def parts(self) -> tuple[list[str], list[str]]:
        """Left and right, each with the most important first."""
        rate = f"{self.tokens_per_s:.1f} tokens/s" if self.tokens_per_s is not None else ""
        band = f"(predicted {self.predicted})" if rate and self.predicted else ""
        doing = self.estimate if self.estimate and self.state == "ready" else (self.state,)
        model = " ".join(filter(None, [one_line(self.model, 40), self.quantization]))
        return [part for part in (*doing, rate, band) if part], [
            part for part in (self.mode, self._context(), self.spent, model) if part
        ]

    def _context(self) -> str:
        if not self.window_tokens:
            return ""
        if self.used_tokens is None:
            return f"context {self.window_tokens:,}"
        filled = min(METER_CELLS, -(-METER_CELLS * self.used_tokens // self.window_tokens))
        meter = "▰" * filled + "▱" * (METER_CELLS - filled)
        return f"{self.used_tokens:,} / {self.window_tokens:,} {meter}"


def status_line(status: Status, width: int) -> Content:
    """``status`` in one line of ``width`` cells."""
    left, right = status.parts()
    gap = 3
    while len(left) + len(right) > 1 and _cells(left) + _cells(right) + gap > width:
        (right if len(right) > 0 and len(right) >= len(left) - 1 else left).pop()
    start, end = _joined(left), _joined(list(reversed(right)))
    return Content.assemble(
        start, " " * max(1, width - cell_len(start) - cell_len(end)), Content.styled(end, "$foreground 60%")
    )


def _joined(parts: list[str]) -> str:
    return " · ".join(parts).replace(" · (", " (")


def _cells(parts: list[str]) -> int:
    return cell_len(_joined(parts))


def progress_text(progress: Progress) -> str:
    """``reading the prompt 43 % · 118 tokens/s · 4 s left``."""
    parts = [f"{_STAGES[progress.stage]} {progress.fraction:.0%}".replace("%", " %")]
    if progress.rate_per_s is not None and progress.unit == "tokens":
        parts.append(f"{progress.rate_per_s:,.0f} tokens/s")
    if progress.seconds_left is not None:
        parts.append(f"{progress.seconds_left:,.0f} s left")
    return " · ".join(parts)


class StatusLine(Static):
    """Shows a Status, and repaints only itself when it changes."""

    def __init__(self) -> None:
        super().__init__(id="status", markup=False)
        self.status = Status()

    def show(self, status: Status) -> None:
        if status != self.status:
            self.status = status
            self._repaint()

    def on_resize(self) -> None:
        self._repaint()

    def _repaint(self) -> None:
        self.update(status_line(self.status, self.content_size.width), layout=False)
