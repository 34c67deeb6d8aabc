"""Where the KV of preempted sequences goes instead of being computed again: CPU memory or a disk.

Owns how long it takes to leave or to come back. Who is preempted is a scheduler's decision.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Swap:
    kv_bytes_per_token: float
    bytes_per_s: float
    latency_s: float = 0.0

    def seconds(self, tokens: int) -> float:
        return self.latency_s + tokens * self.kv_bytes_per_token / self.bytes_per_s
