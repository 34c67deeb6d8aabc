"""Why a reply was slower or faster than predicted: the difference, taken apart.

Pure. Owns the order in which the parts are taken. Each part is a function of one thing
that was observed, so that a change of that thing moves its part and no other; what no
observation explains is said to be unexplained.

A token's own work is its bytes, its context and its overhead, as they really were. A
slower clock stretches this work, another program stretches what the clock left of it,
and the screen adds to the end.
"""

from __future__ import annotations

from dataclasses import dataclass

from bandwidth_model.predict import DecodeTerms

MOST_TAKEN = 0.95  # of the cores' time; beyond it nothing is left to compare with


@dataclass(frozen=True, slots=True)
class Measured:
    """What was observed while a reply was decoded; what nobody observed stays at its default.

    ``seconds_per_token`` is wall time with everything in it, ``weights_s`` and ``kv_s``
    are the predicted formula at the bytes and the depth that really were, ``overhead_s``
    is the cost of layers and token where an engine tells it. ``cores_taken`` is the share
    of the engine's cores that others used, ``clock`` the current over the usual clock,
    ``screen_s`` what drawing took of each token's time.
    """

    seconds_per_token: float
    weights_s: float | None = None
    kv_s: float | None = None
    overhead_s: float | None = None
    cores_taken: float = 0.0
    clock: float = 1.0
    screen_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Residual:
    """Seconds a token took beyond the prediction, by cause; negative where it took less."""

    bytes_s: float
    context_s: float
    overhead_s: float
    throttling_s: float
    contention_s: float
    screen_s: float
    unexplained_s: float

    @property
    def total_s(self) -> float:
        explained = self.bytes_s + self.context_s + self.overhead_s + self.throttling_s
        return explained + self.contention_s + self.screen_s + self.unexplained_s


def residual(predicted: DecodeTerms, measured: Measured) -> Residual:
    """The parts, which sum to measured minus predicted."""
    bytes_s = _beyond(measured.weights_s, predicted.weights_s)
    context_s = _beyond(measured.kv_s, predicted.kv_s)
    overhead_s = _beyond(measured.overhead_s, predicted.layers_s + predicted.token_s)
    work_s = predicted.total_s + bytes_s + context_s + overhead_s
    throttling_s = work_s * (1 / measured.clock - 1)
    taken = min(max(0.0, measured.cores_taken), MOST_TAKEN)
    contention_s = (work_s + throttling_s) * taken / (1 - taken)
    explained = work_s + throttling_s + contention_s + measured.screen_s
    return Residual(
        bytes_s=bytes_s,
        context_s=context_s,
        overhead_s=overhead_s,
        throttling_s=throttling_s,
        contention_s=contention_s,
        screen_s=measured.screen_s,
        unexplained_s=measured.seconds_per_token - explained,
    )


def _beyond(measured: float | None, predicted: float) -> float:
    return 0.0 if measured is None else measured - predicted
