"""How well fits do on device families they did not see, and the intervals that follow.

Owns the evaluation of the datasheet tier. A family is a generation of devices: all of
Apple's M1, all of NVIDIA's Ada.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, log

import numpy as np

from bandwidth_model.devices import Silicon
from bandwidth_model.predict import Conditions, Prediction, predict
from bandwidth_model.rates import Coefficients, datasheet_rates
from benchmarks.datasheet_fit import Fitted, fit
from benchmarks.scoreboard import Run

LOW, HIGH = 0.1, 0.9  # an 80 % interval

# Which errors an interval is made of; of phones alone there are too few rows.
_POOLS: dict[Silicon, tuple[Silicon, ...]] = {
    "gpu": ("gpu",),
    "apple": ("apple",),
    "cpu": ("cpu",),
    "phone": ("cpu", "phone"),
}


@dataclass(frozen=True, slots=True)
class Held:
    """A run and what is predicted for it by everything but its family."""

    run: Run
    prediction: Prediction

    @property
    def error_percent(self) -> float:
        return 100 * abs(self.prediction.decode_tokens_per_s / self.run.tokens_per_s - 1)

    @property
    def ratio(self) -> float:
        """Measured over predicted decode rate."""
        return self.run.tokens_per_s / self.prediction.decode_tokens_per_s

    @property
    def prefill_ratio(self) -> float | None:
        measured = self.run.prefill_tokens_per_s
        return measured / self.prediction.prefill_tokens_per_s if measured else None

    @property
    def covered(self) -> bool:
        return self.prediction.low <= self.run.tokens_per_s <= self.prediction.high


def left_out(runs: Sequence[Run]) -> list[Held]:
    """Every run predicted by a fit that saw no device of its family.

    Neither did its interval, which comes from the errors on the other families.
    """
    families = sorted({run.device.family for run in runs})
    fits = {family: fit([run for run in runs if run.device.family != family]) for family in families}
    plain = [Held(run, predicted(run, fits[run.device.family])) for run in runs]
    whole = {
        family: with_intervals(fits[family], [held for held in plain if held.run.device.family != family])
        for family in families
    }
    return [Held(run, predicted(run, whole[run.device.family])) for run in runs]


def with_intervals(fitted: Fitted, held: Sequence[Held]) -> dict[Silicon, Coefficients]:
    """The same coefficients with the quantiles of measured over predicted."""
    return {silicon: _with_interval(each, silicon, held) for silicon, each in fitted.items()}


def predicted(run: Run, fitted: Fitted) -> Prediction:
    known = fitted[run.device.silicon]
    rates = datasheet_rates(
        run.device, threads=run.threads, flash_attention=run.flash_attention, fitted=known
    )
    return predict(run.shape, rates, Conditions(depth=run.depth, prompt_tokens=run.prompt_tokens))


def median_and_p90(errors_percent: Iterable[float]) -> tuple[float, float]:
    values = list(errors_percent)
    return float(np.median(values)), float(np.quantile(values, 0.9))


def coverage_percent(held: Sequence[Held]) -> float:
    return 100 * sum(each.covered for each in held) / len(held)


def _with_interval(known: Coefficients, silicon: Silicon, held: Sequence[Held]) -> Coefficients:
    alike = [each for each in held if each.run.device.silicon in _POOLS[silicon]]
    low, high = _quantiles([(each.run, each.ratio) for each in alike])
    prefill = [(each.run, each.prefill_ratio) for each in alike if each.prefill_ratio is not None]
    prefill_low, prefill_high = _quantiles([(run, ratio) for run, ratio in prefill if ratio])
    return replace(known, low=low, high=high, prefill_low=prefill_low, prefill_high=prefill_high)


def _quantiles(ratios: Sequence[tuple[Run, float]]) -> tuple[float, float]:
    """Quantiles in which a family counts as the root of its rows.

    By rows alone the interval would be that of the few families with many of them, too
    narrow for a device of another; by families alone, that of families with one row.
    """
    rows = Counter(run.device.family for run, _ in ratios)
    ordered = sorted((log(ratio), rows[run.device.family] ** -0.5) for run, ratio in ratios)
    weights = np.array([weight for _, weight in ordered])
    place = (np.cumsum(weights) - weights / 2) / weights.sum()
    low, high = np.interp([LOW, HIGH], place, [value for value, _ in ordered])
    return exp(min(0.0, low)), exp(max(0.0, high))
