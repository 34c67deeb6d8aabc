"""What a machine measured of itself: the inputs of the two better tiers.

Owns the two records. Does not measure (probe) nor fit (calibrate).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class CacheSpeed:
    """The last-level cache, and how fast what lies in it is read."""

    nbytes: int
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Probe:
    """Plain reads of memory, by number of threads. ``flops_per_s`` is FP32, with all threads."""

    read_bytes_per_s: Mapping[int, float]
    flops_per_s: float
    cache: CacheSpeed | None = None

    def at(self, threads: int) -> float:
        """The read bandwidth of that many threads, on the line between the measured counts."""
        counts = sorted(self.read_bytes_per_s)
        below = max((count for count in counts if count <= threads), default=counts[0])
        above = min((count for count in counts if count >= threads), default=counts[-1])
        low, high = self.read_bytes_per_s[below], self.read_bytes_per_s[above]
        if above <= below:
            return low * min(1.0, threads / below)
        return low + (high - low) * (threads - below) / (above - below)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Fitted to an engine's own runs, for one build, thread count and power state.

    ``vocabulary_s``: scoring a token, for each entry of the vocabulary. ``attention``: seconds
    of one unit of each kind of its work (attention_cost.py). ``low`` and ``high`` are the 10 % and 90 %
    quantiles of measured over predicted rate.
    """

    threads: int
    stream_bytes_per_s: Mapping[str, float]
    layer_s: float
    token_s: float
    prefill_flops_per_s: float
    low: float
    high: float
    vocabulary_s: float = 0.0
    attention: Mapping[str, float] = field(default_factory=dict)
    attention_flops_per_s: float = inf
    prefill_by_quantization: Mapping[str, float] = field(default_factory=dict)
    prefill_low: float = 0.85
    prefill_high: float = 1.15
