"""When a batch is sent: preferred sizes, the full batch, or the longest that anybody may wait.

Owns that one decision, over numbers. Knows neither queue nor clock.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.errors import InvalidSimulation
from router.simcloud.clock import SAME_MOMENT_S


@dataclass(frozen=True, slots=True)
class BatchRule:
    """``preferred`` sizes are sent once they can be formed, others when full or after ``max_delay_s``."""

    max_batch: int = 32
    preferred: tuple[int, ...] = ()
    max_delay_s: float = 0.0

    def __post_init__(self) -> None:
        if self.max_batch < 1:
            raise InvalidSimulation(
                f"Batches of at most {self.max_batch}: nothing could run.", "Give at least 1."
            )
        if not all(1 <= size <= self.max_batch for size in self.preferred):
            raise InvalidSimulation(f"Preferred batch sizes lie between 1 and the maximum, {self.max_batch}.")
        if not 0 <= self.max_delay_s < float("inf"):
            raise InvalidSimulation("The queue delay is a number of seconds, 0 or more.")

    def size(self, queued: int, oldest_waited_s: float) -> int:
        """How many an idle instance takes now; 0 is to wait for more."""
        formable = [size for size in self.preferred if size <= queued]
        if formable:
            return max(formable)
        if queued >= self.max_batch:
            return self.max_batch
        return queued if oldest_waited_s >= self.max_delay_s - SAME_MOMENT_S else 0
