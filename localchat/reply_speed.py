"""The speed of one reply while it comes and afterwards: expected, measured, and the difference.

Owns what is gathered from a turn's events. Knows no screen, and not how parts of a
difference are told apart (explain.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from router.forecaster import Forecaster, Observed, Watch
from router.request import Delta, Finished, Forecast, Predicted

if TYPE_CHECKING:
    from bandwidth_model.predict import DecodeTerms
    from bandwidth_model.residual import Residual

LEAST_DECODED = 8  # fewer tokens give no rate worth explaining


class Explaining(Forecaster, Protocol):
    """A forecaster that can be asked again: :class:`localchat.forecast.ModelForecaster`."""

    @property
    def unknown(self) -> str:
        """Why the last forecast was None."""
        ...

    @property
    def threads(self) -> int | None:
        """That the engine decodes with by now."""
        ...

    def terms_at(self, depth: float) -> DecodeTerms | None: ...


@dataclass(frozen=True, slots=True)
class SpeedReport:
    """``tokens`` of the reply so far; what is not known yet is None. ``depth``: of its middle."""

    live: bool = False
    forecast: Forecast | None = None
    unknown: str = ""
    tokens: int = 0
    tokens_per_s: float | None = None
    ttft_s: float | None = None
    depth: float = 0.0
    threads: int | None = None  # that the engine decodes with by now
    observed: Observed | None = None
    residual: Residual | None = None

    @property
    def read_bytes_per_s(self) -> float | None:
        """What was really read of memory, weights and cache."""
        if self.forecast is None or self.tokens_per_s is None:
            return None
        return self.forecast.bytes_per_token * self.tokens_per_s


class ReplySpeed:
    """Follows one turn. Events are taken at the moment they arrive."""

    def __init__(self, forecaster: Explaining | None = None) -> None:
        self._forecaster = forecaster
        self._forecast: Forecast | None = None
        self._predicted_s = self._first_s = self._last_s = 0.0
        self._tokens = self._first_tokens = 0
        self._watch: Watch | None = None
        self._seen: Observed | None = None
        self._finished: Finished | None = None
        self._ended: SpeedReport | None = None

    @property
    def forecast(self) -> Forecast | None:
        return self._forecast

    def take(self, event: object, now_s: float) -> None:
        match event:
            case Predicted(forecast):
                self._forecast, self._predicted_s = forecast, now_s
                self._watch = self._forecaster.watch() if self._forecaster else None
            case Delta():
                self._count(len(event.scores), now_s)
            case Finished():
                self._seen = self._observed()  # what comes after is no decoding
                self._finished = event
            case _:
                pass

    def _count(self, tokens: int, now_s: float) -> None:
        if not self._tokens:
            self._first_s, self._first_tokens = now_s, tokens
            if self._watch:
                self._watch.begin()
        self._tokens, self._last_s = self._tokens + tokens, now_s

    def end(self) -> None:
        """The turn is over, finished or not: what is known now stays."""
        if self._ended is None:
            self._ended = replace(self.report(), live=False)

    def report(self) -> SpeedReport:
        if self._ended:
            return self._ended
        report = SpeedReport(
            live=True,
            forecast=self._forecast,
            unknown=self._forecaster.unknown if self._forecaster else "",
            tokens=self._tokens,
            tokens_per_s=self._rate(),
            ttft_s=self._ttft_s(),
            observed=self._seen or self._observed(),
        )
        return self._explained(report)

    def _observed(self) -> Observed | None:
        return self._watch.observed() if self._watch and self._tokens else None

    def _rate(self) -> float | None:
        """The engine's own once it has told; until then that of the arriving tokens."""
        if self._finished:
            return self._finished.timings.decode_tokens_per_s or None
        seconds = self._last_s - self._first_s
        return (self._tokens - self._first_tokens) / seconds if seconds > 0 else None

    def _ttft_s(self) -> float | None:
        """Without loading, which no prediction of a reply counts."""
        if self._finished and self._finished.timings.ttft_s:
            return self._finished.timings.ttft_s - self._finished.timings.load_s
        return self._first_s - self._predicted_s if self._forecast and self._tokens else None

    def _explained(self, report: SpeedReport) -> SpeedReport:
        from localchat.explain import explained, reply_depth

        decoded, forecast = self._tokens - self._first_tokens, self._forecast
        if not (forecast and report.observed and report.tokens_per_s and decoded >= LEAST_DECODED):
            return report
        if forecast.guessed:  # the difference to other processors has no parts
            return report
        depth = reply_depth(forecast.prompt_tokens, self._tokens)
        terms = self._forecaster.terms_at(depth) if self._forecaster else None
        if terms is None:
            return report
        parts = explained(forecast, terms, report.observed, decoded, report.tokens_per_s)
        threads = self._forecaster.threads if self._forecaster else None
        return replace(report, depth=depth, threads=threads, residual=parts)
