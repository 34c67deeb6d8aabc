"""Forecasters for tests: one that knows everything, and what each lesson told it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bandwidth_model.predict import DecodeTerms
from router.forecaster import Observed, Watch
from router.request import Finished, Forecast

TERMS = DecodeTerms(weights_s=0.010, kv_s=0.0005, layers_s=0.0015, token_s=0.0005)
FORECAST = Forecast(
    tier="probed",
    prompt_tokens=100,
    cached_tokens=0,
    depth=200.0,
    threads=2,
    decode_tokens_per_s=80.0,
    low=70.0,
    high=95.0,
    prefill_tokens_per_s=400.0,
    prefill_s=0.25,
    ttft_s=0.2625,
    bytes_per_token=98e6,
    terms=TERMS,
    basis=("memory of this machine as measured by `localchat probe`", "94.0 MB of weights a token"),
    verify="localchat bench smollm2-135m --depths 200 --threads 2",
)


@dataclass(slots=True)
class FakeWatch:
    """Observes what it was told to."""

    seen: Observed = field(default_factory=lambda: Observed(1.0, 2))
    begun: int = 0

    def begin(self) -> None:
        self.begun += 1

    def observed(self) -> Observed:
        return self.seen


@dataclass(slots=True)
class FakeForecaster:
    """Answers with FORECAST at the counts asked for, after doing ``first``."""

    first: Callable[[], object] = lambda: None
    knows: bool = True
    asked: list[tuple[int, int]] = field(default_factory=list)
    lessons: list[tuple[Forecast, Finished, Observed]] = field(default_factory=list)
    watched: FakeWatch = field(default_factory=FakeWatch)
    unknown: str = ""
    threads: int | None = 2

    def prepare(self) -> None: ...

    def forecast(self, prompt_tokens: int, cached_tokens: int) -> Forecast | None:
        self.asked.append((prompt_tokens, cached_tokens))
        self.first()
        return (
            replace(FORECAST, prompt_tokens=prompt_tokens, cached_tokens=cached_tokens)
            if self.knows
            else None
        )

    def watch(self) -> Watch:
        return self.watched

    def terms_at(self, depth: float) -> DecodeTerms:
        """The cache is read at 400,000 tokens a second."""
        return replace(TERMS, kv_s=depth / 400_000)

    def learn(self, forecast: Forecast, finished: Finished, observed: Observed) -> None:
        self.lessons.append((forecast, finished, observed))
