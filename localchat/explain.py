"""Why a reply was faster or slower than predicted: an observation, turned into time a token.

Pure. Owns what of an observation can have delayed a token at all: what others or the
screen took of cores that the engine left free delayed none. How the parts add up is
:mod:`bandwidth_model.residual`'s.
"""

from __future__ import annotations

from bandwidth_model.predict import DecodeTerms
from bandwidth_model.residual import Measured, Residual, residual
from router.forecaster import Observed
from router.request import Forecast


def explained(
    forecast: Forecast, at_depth: DecodeTerms, observed: Observed, tokens: int, tokens_per_s: float
) -> Residual:
    """The parts of a token's time beyond ``forecast``.

    ``at_depth`` are the terms at the depth that really was, by the rates of the forecast;
    ``tokens`` were decoded while it was observed.
    """
    spare_cores = max(0, observed.cores - forecast.threads)
    taken = max(0.0, observed.others_cores - spare_cores) / max(1, forecast.threads)
    expected = forecast.terms
    # A deeper cache may push the weights out of the processor's: that is the context's doing too.
    kv_s = at_depth.kv_s + at_depth.weights_s - expected.weights_s
    measured = Measured(
        seconds_per_token=1 / tokens_per_s,
        kv_s=kv_s,
        cores_taken=taken,
        clock=observed.clock or 1.0,
        screen_s=0.0 if spare_cores else observed.own_cpu_s / max(1, tokens),
    )
    return residual(expected, measured)


def reply_depth(prompt_tokens: int, reply_tokens: int) -> float:
    """What the middle of a reply had before it."""
    return prompt_tokens + reply_tokens / 2
