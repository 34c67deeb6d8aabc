"""What a simulation reports: latencies, throughput, batches, KV use, cost, service levels.

Owns counting while steps happen (Recorder) and the figures made of it (Summary). Memory
does not grow with requests: latencies go into Quantiles, and whoever wants each request
passes ``each``. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from router.simcloud.quantiles import Quantiles
from router.simcloud.request import Completed, Rejected


@dataclass(frozen=True, slots=True)
class ServiceLevel:
    """A request meets it if none of the bounds that are set is passed."""

    ttft_s: float | None = None
    tpot_s: float | None = None
    e2e_s: float | None = None

    def met_by(self, completed: Completed) -> bool:
        return (
            (self.ttft_s is None or completed.ttft_s <= self.ttft_s)
            and (self.tpot_s is None or (completed.tpot_s or 0.0) <= self.tpot_s)
            and (self.e2e_s is None or completed.e2e_s <= self.e2e_s)
        )


@dataclass(frozen=True, slots=True)
class Latency:
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None

    @property
    def all(self) -> tuple[float | None, ...]:
        return self.mean, self.p50, self.p90, self.p99


@dataclass(frozen=True, slots=True)
class Summary:
    """``mean_batch`` is over steps, of the sequences computed in each. Rates are over ``makespan_s``, from
    the first arrival to the last end. A rejected request misses its service level."""

    ttft_s: Latency
    tpot_s: Latency
    e2e_s: Latency
    itl_s: Latency
    queue_s: Latency
    output_tokens_per_s: float
    preemptions: int
    mean_batch: float
    kv_peak: float
    completed: int
    rejected: int
    cancelled: int
    output_tokens: int
    prompt_tokens: int
    makespan_s: float
    steps: int
    utilisation: float
    mean_queue: float
    prefix_hit_rate: float
    slo_attainment: float | None
    goodput_per_s: float | None
    usd_per_million_tokens: float | None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


class Recorder:
    def __init__(
        self,
        kv_capacity: int,
        *,
        level: ServiceLevel | None = None,
        usd_per_hour: float | None = None,
        replicas: int = 1,
        each: Callable[[Completed | Rejected], None] | None = None,
    ) -> None:
        self._kv_capacity = kv_capacity
        self._level = level
        self.usd_per_hour = usd_per_hour  # of one of them
        self._usd_per_hour_all = None if usd_per_hour is None else usd_per_hour * replicas
        self._replicas = replicas
        self._each = each
        self.ttft, self.tpot, self.e2e, self.queued = Quantiles(), Quantiles(), Quantiles(), Quantiles()
        self.gaps = Gaps()
        self._first_arrival_s: float | None = None
        self._last_end_s = 0.0
        self._busy_s = 0.0
        self._steps = 0
        self._sequence_steps = 0
        self._kv_peak = 0
        self._output_tokens = self._prompt_tokens = self._cached_tokens = 0
        self._completed = self._rejected = self._cancelled = self._preemptions = self._met = 0

    # -- called by engines

    def stepped(self, seconds: float, sequences: int, decodes: int, waits: int) -> None:
        self._steps += 1
        self._busy_s += seconds
        self._sequence_steps += sequences
        self.gaps.step(seconds, decodes, waits)

    def leapt(self, decodes: int, steps: int, first_s: float, growth_s: float) -> None:
        self._steps += steps
        self._busy_s += steps * first_s + growth_s * (steps * (steps - 1) / 2)
        self._sequence_steps += steps * decodes
        self.gaps.leap(first_s, growth_s, steps, decodes)

    def kv_used(self, blocks: int) -> None:
        if blocks > self._kv_peak:
            self._kv_peak = blocks

    def arrived(self, at_s: float) -> None:
        if self._first_arrival_s is None or at_s < self._first_arrival_s:
            self._first_arrival_s = at_s

    def admitted(self, prompt_tokens: int, cached_tokens: int) -> None:
        self._prompt_tokens += prompt_tokens
        self._cached_tokens += cached_tokens

    def preempted(self, waiting_for_token: bool) -> None:
        self._preemptions += 1
        if waiting_for_token:
            self.gaps.lost()

    def rejected(self, rejected: Rejected) -> None:
        self._rejected += 1
        if self._each is not None:
            self._each(rejected)

    def cancelled(self, at_s: float) -> None:
        self._cancelled += 1
        self._last_end_s = max(self._last_end_s, at_s)

    def finished(self, completed: Completed) -> None:
        self._completed += 1
        self._output_tokens += completed.output_tokens + completed.other_tokens
        self._last_end_s = max(self._last_end_s, completed.finished_s)
        self.ttft.add(completed.ttft_s)
        self.e2e.add(completed.e2e_s)
        self.queued.add(completed.queued_s)
        tpot_s = completed.tpot_s
        if tpot_s is not None:
            self.tpot.add(tpot_s)
        if self._level is not None and self._level.met_by(completed):
            self._met += 1
        if self._each is not None:
            self._each(completed)

    # -- what came out

    def of_the_whole(self, each: Callable[[Completed | Rejected], None] | None) -> Recorder:
        """An empty one of no machine, that others' counts can join."""
        rate = self.usd_per_hour
        return Recorder(self._kv_capacity, level=self._level, usd_per_hour=rate, replicas=0, each=each)

    def absorb(self, other: Recorder, answers: bool = True) -> None:
        """Another machine's counts join this one's; without ``answers`` only what the machine did."""
        self._replicas += other._replicas
        ours, theirs = self._usd_per_hour_all, other._usd_per_hour_all
        self._usd_per_hour_all = None if ours is None or theirs is None else ours + theirs
        self._steps += other._steps
        self._busy_s += other._busy_s
        self._sequence_steps += other._sequence_steps
        self._preemptions += other._preemptions
        self._prompt_tokens += other._prompt_tokens
        self._cached_tokens += other._cached_tokens
        if other._kv_peak * self._kv_capacity > self._kv_peak * other._kv_capacity:
            self._kv_peak, self._kv_capacity = other._kv_peak, other._kv_capacity
        if other._first_arrival_s is not None:
            self.arrived(other._first_arrival_s)
        self._last_end_s = max(self._last_end_s, other._last_end_s)
        self.gaps.quantiles.absorb(other.gaps.quantiles)
        if answers:
            self._absorb_answers(other)

    def _absorb_answers(self, other: Recorder) -> None:
        self._completed += other._completed
        self._rejected += other._rejected
        self._cancelled += other._cancelled
        self._met += other._met
        self._output_tokens += other._output_tokens
        for mine, theirs in (
            (self.ttft, other.ttft),
            (self.tpot, other.tpot),
            (self.e2e, other.e2e),
            (self.queued, other.queued),
        ):
            mine.absorb(theirs)

    def summary(self) -> Summary:
        makespan_s = self._last_end_s - (self._first_arrival_s or 0.0)
        rate = self._output_tokens / makespan_s if makespan_s > 0 else 0.0
        asked = self._completed + self._rejected + self._cancelled
        level = self._level is not None and asked > 0
        return Summary(
            ttft_s=_latency(self.ttft),
            tpot_s=_latency(self.tpot),
            e2e_s=_latency(self.e2e),
            itl_s=_latency(self.gaps.quantiles),
            queue_s=_latency(self.queued),
            output_tokens_per_s=rate,
            preemptions=self._preemptions,
            mean_batch=self._sequence_steps / self._steps if self._steps else 0.0,
            kv_peak=self._kv_peak / self._kv_capacity,
            completed=self._completed,
            rejected=self._rejected,
            cancelled=self._cancelled,
            output_tokens=self._output_tokens,
            prompt_tokens=self._prompt_tokens,
            makespan_s=max(0.0, makespan_s),
            steps=self._steps,
            utilisation=self._busy_s / (makespan_s * self._replicas) if makespan_s > 0 else 0.0,
            mean_queue=self.queued.total / makespan_s if makespan_s > 0 else 0.0,
            prefix_hit_rate=self._cached_tokens / self._prompt_tokens if self._prompt_tokens else 0.0,
            slo_attainment=self._met / asked if level else None,
            goodput_per_s=self._met / makespan_s if level and makespan_s > 0 else None,
            usd_per_million_tokens=usd_per_million_tokens(self._usd_per_hour_all, rate),
        )


class Gaps:
    """Times between a sequence's tokens, pooled. Where a step leaves out those that decode (their prompt-
    computing neighbours go first), what they waited is added to their next gap."""

    __slots__ = ("_add", "_waiting", "quantiles")

    def __init__(self, add: Callable[[float, int], None] | None = None) -> None:
        """``add`` counts each gap and how often it occurs, instead of ``quantiles``."""
        self.quantiles = Quantiles()
        self._add = add or self.quantiles.add
        self._waiting: list[tuple[float, int]] = []  # seconds waited, sequences; oldest first

    def step(self, seconds: float, decodes: int, waits: int) -> None:
        if not decodes:
            newly = waits - sum(sequences for _, sequences in self._waiting)
            if newly > 0:
                self._waiting.append((0.0, newly))
            self._waiting = [(waited_s + seconds, sequences) for waited_s, sequences in self._waiting]
            return
        prompt_ones = decodes
        for waited_s, sequences in self._waiting:
            self._add(waited_s + seconds, sequences)
            prompt_ones -= sequences
        self._waiting.clear()
        if prompt_ones > 0:
            self._add(seconds, prompt_ones)

    def leap(self, first_s: float, growth_s: float, steps: int, decodes: int) -> None:
        if self._waiting:
            self.step(first_s, decodes, 0)
            first_s, steps = first_s + growth_s, steps - 1
        if steps:
            self.quantiles.add_series(first_s, growth_s, steps, decodes)

    def lost(self) -> None:
        """One of those that wait is preempted: its next token comes from computing it anew."""
        if self._waiting:
            waited_s, sequences = self._waiting[0]
            self._waiting[:1] = [(waited_s, sequences - 1)] if sequences > 1 else []


def usd_per_million_tokens(usd_per_hour: float | None, tokens_per_s: float) -> float | None:
    """What machines that cost ``usd_per_hour`` together cost while a million tokens come out."""
    if usd_per_hour is None or tokens_per_s <= 0:
        return None
    return usd_per_hour / (3600 * tokens_per_s) * 1e6


def _latency(values: Quantiles) -> Latency:
    p50, p90, p99 = values.at((0.5, 0.9, 0.99))
    return Latency(values.mean, p50, p90, p99)
