"""How fast a reply of one model on this machine will be: file, machine and thread count -> Forecast.

Owns what is read once (the file's shape) and which depth a reply is predicted at. Does
not measure, nor know where the machine's rates come from (speed.py).
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from bandwidth_model.errors import BandwidthModelError
from localchat.errors import LocalchatError
from router.backend import ModelInfo
from router.forecaster import Observed, Watch
from router.request import Finished, Forecast

if TYPE_CHECKING:  # imported when the first reply is on its way: the first paint does not wait for them
    from bandwidth_model.calibrate import Run
    from bandwidth_model.predict import DecodeTerms, Prediction
    from bandwidth_model.rates import Rates
    from bandwidth_model.shape import ModelShape
    from localchat.calibration import Source
    from localchat.observation import Counters

LEAST_LEARNED = 24  # tokens of a reply: the rate of a shorter one is chance
CALM_CORES = 0.1  # others took at most this much of a core
CALM_CLOCK = 0.95  # of the usual one
USUAL_REPLY_TOKENS = 200  # how long a reply is before anybody knows; half of it lies before its middle


class Speed(Protocol):
    """What is known of the machine: :class:`localchat.speed.MachineSpeed`."""

    def rates(self, threads: int | None = None, shape: ModelShape | None = None) -> Rates: ...

    def learn(self, runs: Iterable[Run], source: Source) -> object: ...


class ModelForecaster:
    """Implements :class:`router.forecaster.Forecaster` for one model file.

    ``info`` and ``engine_pid`` tell of the engine that runs it, None while there is none.
    ``unknown`` says why the last forecast was None.
    """

    def __init__(
        self,
        name: str,
        path: Path,
        kv_type: str,
        open_speed: Callable[[], Speed],
        info: Callable[[], ModelInfo | None],
        engine_pid: Callable[[], int | None],
        *,
        gpu_layers: int = 0,
    ) -> None:
        self.unknown = ""
        self._name, self._path, self._kv_type = name, path, kv_type
        self._open_speed, self._info, self._engine_pid = open_speed, info, engine_pid
        self._gpu_layers = gpu_layers
        self._shape: ModelShape | None = None
        self._speed: Speed | None = None
        self._counters: Counters | None = None
        self._rates: Rates | None = None  # of the last forecast

    def prepare(self) -> None:
        from bandwidth_model.reading import read_shape
        from localchat.observation import Counters

        if self._shape is None:
            self._counters, self._speed = Counters(self._engine_pid), self._open_speed()
            self._shape = read_shape(self._path)

    def forecast(self, prompt_tokens: int, cached_tokens: int) -> Forecast | None:
        self.unknown = ""
        if self._gpu_layers:
            self.unknown = "Some layers run on a GPU: how fast those are is not predicted yet."
            return None
        info = self._info()
        if info is None:
            return None
        try:
            self.prepare()
            assert self._speed
            self._rates = self._speed.rates(info.decode_threads, self._shape)
            prompt_rates = self._speed.rates(info.prefill_threads, self._shape)
        except (LocalchatError, BandwidthModelError) as error:
            self.unknown = str(error)
            return None
        return self._predicted(prompt_tokens, cached_tokens, info, self._rates, prompt_rates)

    @property
    def threads(self) -> int | None:
        info = self._info()
        return info.decode_threads if info else None

    def terms_at(self, depth: float) -> DecodeTerms | None:
        """A token's seconds at ``depth``, by the rates of the last forecast."""
        from bandwidth_model.predict import decode_terms

        if self._shape is None or self._rates is None:
            return None
        return decode_terms(self._shape, self._rates, depth, self._kv_type)

    def watch(self) -> Watch:
        from bandwidth_model.machine import usable_cores
        from localchat.observation import ReplyWatch

        self.prepare()
        assert self._counters
        return ReplyWatch(self._counters, usable_cores())

    def learn(self, forecast: Forecast, finished: Finished, observed: Observed) -> None:
        """Remember how fast the reply was, unless something disturbed it or it was short."""
        rate, tokens = finished.timings.decode_tokens_per_s, finished.usage.completion_tokens
        calm = observed.others_cores <= CALM_CORES and (observed.clock or 1.0) >= CALM_CLOCK
        if not (calm and rate and tokens >= LEAST_LEARNED and self.threads == forecast.threads):
            return
        from bandwidth_model.calibrate import run_of

        assert self._shape
        assert self._speed
        depth = forecast.prompt_tokens + tokens / 2
        run = run_of(
            self._shape, threads=forecast.threads, depth=depth, token_s=1 / rate, kv_type=self._kv_type
        )
        self._speed.learn([run], "reply")

    def _predicted(
        self, prompt_tokens: int, cached_tokens: int, info: ModelInfo, rates: Rates, prompt_rates: Rates
    ) -> Forecast:
        from bandwidth_model.predict import Conditions, predict

        assert self._shape
        depth = prompt_tokens + USUAL_REPLY_TOKENS / 2
        computed = max(1, prompt_tokens - cached_tokens)
        reply = predict(self._shape, rates, Conditions(depth, kv_type=self._kv_type))
        prompt = predict(self._shape, prompt_rates, Conditions(prompt_tokens, computed, self._kv_type))
        return Forecast(
            tier=reply.tier,
            prompt_tokens=prompt_tokens,
            cached_tokens=cached_tokens,
            depth=depth,
            threads=info.decode_threads,
            decode_tokens_per_s=reply.decode_tokens_per_s,
            low=reply.low,
            high=reply.high,
            prefill_tokens_per_s=prompt.prefill_tokens_per_s,
            prefill_s=prompt.warm.prefill_s,
            ttft_s=prompt.warm.ttft_s,
            bytes_per_token=reply.basis.bytes_per_token + reply.basis.kv_read_bytes,
            terms=reply.basis.terms,
            basis=_basis(reply, info),
            verify=f"localchat bench {shlex.quote(self._name)} --depths {depth:.0f}"
            f" --threads {info.decode_threads}",
            guessed=reply.guessed,
        )


_TIERS = {
    "datasheet": "the data sheet of {device} and published runs",
    "probed": "memory of {device} as measured by `localchat probe`",
    "calibrated": "runs of the engine on {device}",
}

GUESSED = "typical processors, this one being unknown until a reply or `localchat calibrate` has measured it"


def _basis(reply: Prediction, info: ModelInfo) -> tuple[str, ...]:
    """What the numbers rest on, in words."""
    basis = reply.basis
    plural = "s" if info.decode_threads > 1 else ""
    rests_on = _TIERS[reply.tier].format(device=basis.devices[0])
    return (
        GUESSED if reply.guessed else rests_on,
        f"{basis.bytes_per_token / 1e6:,.1f} MB of weights a token",
        f"{basis.kv_read_bytes / 1e6:,.1f} MB of {basis.kv_type} cache"
        f" at a depth of {basis.conditions.depth:,.0f} tokens",
        f"{info.decode_threads} thread{plural}",
    )
