"""What a dynamically batching server reports: latency, batches, rejections, how busy it was.

Owns counting. Requests that arrived before ``since_s`` (warm-up) are served but not counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

from router.simcloud.dynamic.repository import ServedModel
from router.simcloud.dynamic.server import Answered, Outcome
from router.simcloud.metrics import Latency
from router.simcloud.quantiles import Quantiles
from router.simcloud.request import Rejected


@dataclass(frozen=True, slots=True)
class BatchingSummary:
    """``mean_batch`` is over batches, ``requests_per_s`` from the first counted arrival to the last end.

    ``level_attainment``: answered within the asked time, of all that came (rejected ones miss it).
    """

    answered: int
    rejected: dict[str, int]
    latency_s: Latency
    queue_s: Latency
    ttft_s: Latency
    requests_per_s: float
    output_tokens_per_s: float
    mean_batch: float
    batches: dict[int, int]
    utilisation: float
    level_attainment: float | None
    usd_per_million_requests: float | None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class Report:
    """Give ``add`` to a Server as ``each``. ``instances`` in all, for utilisation and cost."""

    def __init__(
        self,
        instances: int = 1,
        *,
        since_s: float = 0.0,
        within_s: float | None = None,
        usd_per_hour: float | None = None,
    ) -> None:
        self._instances = instances
        self._since_s = since_s
        self._within_s = within_s
        self._usd_per_hour = usd_per_hour
        self.latency, self.queued, self.ttft = Quantiles(), Quantiles(), Quantiles()
        self._rejected: Counter[str] = Counter()
        self._batches: Counter[int] = Counter()
        self._last: tuple[ServedModel, int, float] | None = None
        self._first_s: float | None = None
        self._end_s = 0.0
        self._busy_s = 0.0
        self._tokens = 0
        self._met = 0

    def add(self, outcome: Outcome) -> None:
        arrived_s = outcome.request.arrived_s
        if arrived_s < self._since_s:
            return
        self._first_s = arrived_s if self._first_s is None else min(self._first_s, arrived_s)
        if isinstance(outcome, Rejected):
            self._rejected[outcome.why] += 1
            return
        self._count_batch(outcome)
        self.latency.add(outcome.latency_s)
        self.queued.add(outcome.queued_s)
        self.ttft.add(outcome.ttft_s)
        self._tokens += outcome.output_tokens
        self._end_s = max(self._end_s, outcome.finished_s)
        self._met += self._within_s is not None and outcome.latency_s <= self._within_s

    def _count_batch(self, answered: Answered) -> None:
        """Members of a batch are told one after the other: the first of them counts for all."""
        batch = (answered.model, answered.instance, answered.started_s)
        if batch != self._last:
            self._last = batch
            self._batches[answered.batch] += 1
            self._busy_s += answered.finished_s - answered.started_s

    def summary(self) -> BatchingSummary:
        asked = self.latency.count + self._rejected.total()
        span_s = max(0.0, self._end_s - (self._first_s or 0.0))
        rate = self.latency.count / span_s if span_s else 0.0
        batches = self._batches.total()
        dollars = None if self._usd_per_hour is None else self._usd_per_hour * self._instances / 3600
        return BatchingSummary(
            answered=self.latency.count,
            rejected=dict(sorted(self._rejected.items())),
            latency_s=_latency(self.latency),
            queue_s=_latency(self.queued),
            ttft_s=_latency(self.ttft),
            requests_per_s=rate,
            output_tokens_per_s=self._tokens / span_s if span_s else 0.0,
            mean_batch=sum(size * times for size, times in self._batches.items()) / batches
            if batches
            else 0.0,
            batches=dict(sorted(self._batches.items())),
            utilisation=self._busy_s / (span_s * self._instances) if span_s else 0.0,
            level_attainment=self._met / asked if asked and self._within_s is not None else None,
            usd_per_million_requests=None if dollars is None or not rate else dollars / rate * 1e6,
        )


def _latency(values: Quantiles) -> Latency:
    return Latency(values.mean, *values.at((0.5, 0.9, 0.99)))
