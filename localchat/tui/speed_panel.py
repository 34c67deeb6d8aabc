"""Predicted and measured speed side by side, and where the difference went.

Owns the words and their layout, in at most 54 cells; all figures come from a
:class:`localchat.reply_speed.SpeedReport`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localchat.reply_speed import SpeedReport
from localchat.tui.figures import band_text, percent_text, with_minus
from localchat.tui.panel import Panel
from localchat.tui.safe_text import displayable

if TYPE_CHECKING:
    from bandwidth_model.residual import Residual

REFRESH_EVERY_S = 1.0  # drawing takes from what is measured
DIM = "$foreground 60%"
LEAST_MS = 0.005  # less is shown as 0.00: parts that nobody observed are left out then

GUESS_BASIS = "typical processors"
NOTHING_YET = "Nothing has been predicted yet. It is when you send a message."


class SpeedPanel(Panel[None]):
    """Live while a reply streams; ``report`` tells of the last one afterwards."""

    heading = "Speed"
    hints = "esc closes"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("f4", "close", "Close", show=False)]

    def __init__(self, report: Callable[[], SpeedReport]) -> None:
        super().__init__()
        self._report = report
        self._shown: SpeedReport | None = None
        self._text = Static(id="speed-text", markup=False)

    def body(self) -> ComposeResult:
        with VerticalScroll(id="speed"):
            yield self._text

    def on_mount(self) -> None:
        self._refresh_report()
        self.set_interval(REFRESH_EVERY_S, self._refresh_report)

    def _refresh_report(self) -> None:
        report = self._report()
        if report != self._shown:
            self._shown = report
            self._text.update(speed_text(report))


def speed_text(report: SpeedReport) -> Content:
    parts = [_figures(report)]
    if report.residual:
        parts.append(_where_it_went(report, report.residual))
    if report.forecast:
        parts.append(_foundation(report))
    return Content("\n\n").join(parts)


# -- predicted and measured


def _figures(report: SpeedReport) -> Content:
    if report.forecast is None:
        words = displayable(report.unknown) or NOTHING_YET
        measured = [_row("measured", _rate(report))] if report.tokens_per_s else []
        return Content("\n").join([Content(words), *measured])
    rows = [_predicted(report), _measured(report), *_memory(report), *_first_token(report)]
    return Content("\n").join(rows)


def _predicted(report: SpeedReport) -> Content:
    forecast = report.forecast
    assert forecast
    return _row(
        "guessed" if forecast.guessed else "predicted",
        f"{forecast.decode_tokens_per_s:.1f} tokens/s",
        f"{band_text(forecast.low, forecast.high)}, {GUESS_BASIS if forecast.guessed else forecast.tier}",
    )


def _measured(report: SpeedReport) -> Content:
    forecast, rate = report.forecast, report.tokens_per_s
    assert forecast
    name = "so far" if report.live else "measured"
    if rate is None:
        return _row(name, "–", "nothing decoded yet" if report.live else "nothing decoded")
    where = "below" if rate < forecast.low else "above" if rate > forecast.high else "within"
    error = forecast.error_percent(rate)
    note = "no prediction to compare with" if error is None else f"{percent_text(error)}, {where} the band"
    return _row(name, _rate(report), note)


def _rate(report: SpeedReport) -> str:
    return f"{report.tokens_per_s:.1f} tokens/s"


def _memory(report: SpeedReport) -> Iterator[Content]:
    if report.forecast and report.read_bytes_per_s:
        size_mb = report.forecast.bytes_per_token / 1e6
        yield _row("memory read", f"{report.read_bytes_per_s / 1e9:.1f} GB/s", f"{size_mb:,.0f} MB a token")


def _first_token(report: SpeedReport) -> Iterator[Content]:
    assert report.forecast
    measured = f"{report.ttft_s:.2f} s" if report.ttft_s is not None else "–"
    yield _row("first token", measured, f"{report.forecast.ttft_s:.2f} s predicted")


def _row(name: str, value: str, note: str = "") -> Content:
    return Content.assemble((f"{name:<13}", DIM), f"{value:<16}", (note, DIM))


# -- where the time went


def _where_it_went(report: SpeedReport, parts: Residual) -> Content:
    forecast = report.forecast
    assert forecast
    assert report.tokens_per_s
    rows = [
        _part("predicted", 1000 / forecast.decode_tokens_per_s, "", sign=""),
        *(_part(name, seconds * 1000, note) for name, seconds, note in _parts(report, parts)),
        _part("so far" if report.live else "measured", 1000 / report.tokens_per_s, "", sign=""),
    ]
    return Content("\n").join([Content.styled("Where the time of a token went, in ms", "bold"), *rows])


def _parts(report: SpeedReport, parts: Residual) -> Iterator[tuple[str, float, str]]:
    forecast = report.forecast
    assert forecast
    if abs(parts.bytes_s) * 1000 >= LEAST_MS:
        yield "bytes", parts.bytes_s, "other than the file says"
    yield "context", parts.context_s, f"{report.depth:,.0f} deep, {forecast.depth:,.0f} expected"
    if abs(parts.overhead_s) * 1000 >= LEAST_MS:
        yield "overhead", parts.overhead_s, "of layers and sampling"
    yield "other programs", parts.contention_s, _others(report)
    if report.observed and report.observed.clock is not None:
        yield "clock", parts.throttling_s, _clock(report.observed.clock)
    yield "this screen", parts.screen_s, _screen(report, parts)
    yield "not explained", parts.unexplained_s, _threads(report)


def _others(report: SpeedReport) -> str:
    seen = report.observed
    assert seen
    if seen.others_cores < 0.05:
        return "next to nothing else ran"
    plural = "s" if seen.cores > 1 else ""
    return f"took {seen.others_cores:.1f} of {seen.cores} core{plural}"


def _clock(share: float) -> str:
    return "as fast as usual" if share >= 1 else f"{share:.0%} of its usual speed".replace("%", " %")


def _screen(report: SpeedReport, parts: Residual) -> str:
    seen = report.observed
    assert seen
    if seen.own_cpu_s and not parts.screen_s:
        return "ran on a free core"
    share = seen.own_cpu_s / seen.seconds if seen.seconds else 0.0
    return f"took {share:.0%} of a core".replace("%", " %")


def _threads(report: SpeedReport) -> str:
    """The engine leaves cores to others: what that costs or gains is measured by no counter."""
    planned = report.forecast.threads if report.forecast else 0
    if report.threads is None or report.threads == planned:
        return ""
    return f"on {report.threads}, not {planned} threads by now"


def _part(name: str, ms: float, note: str, sign: str = "+") -> Content:
    # What rounds to nothing has no sign.
    figure = f"{ms:{sign}.2f}" if abs(ms) >= LEAST_MS else "0.00"
    return Content.assemble((f"{name:<15}", DIM), f"{with_minus(figure):>7}", (f"  {note}".rstrip(), DIM))


# -- what it rests on


def _foundation(report: SpeedReport) -> Content:
    forecast = report.forecast
    assert forecast
    basis = displayable(", ".join(forecast.basis))
    return Content.styled(f"Predicted from {basis}.\nMeasure it: {displayable(forecast.verify)}", DIM)
