"""What a live simulated server counts, under the names that vLLM gives it.

Owns names, buckets and the counting; fed by an engine, as its Recorder. Memory does not grow
with requests. Names and buckets: vllm/v1/metrics/loggers.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from router.simcloud.metrics import Gaps, Recorder
from router.simcloud.prometheus import Histogram, Page
from router.simcloud.request import Completed, Rejected
from router.simcloud.state import ServerState

FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)
REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
TOKENS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0, 20_000.0)


@dataclass(slots=True)
class ServingMetrics:
    """Counts since the server started, over every deployment it had."""

    ttft: Histogram = field(default_factory=lambda: Histogram(FIRST_TOKEN_S))
    itl: Histogram = field(default_factory=lambda: Histogram(TOKEN_S))
    tpot: Histogram = field(default_factory=lambda: Histogram(TOKEN_S))
    e2e: Histogram = field(default_factory=lambda: Histogram(REQUEST_S))
    queued: Histogram = field(default_factory=lambda: Histogram(REQUEST_S))
    prompts: Histogram = field(default_factory=lambda: Histogram(TOKENS))
    answers: Histogram = field(default_factory=lambda: Histogram(TOKENS))
    ended: dict[str, int] = field(default_factory=lambda: {"stop": 0, "length": 0, "abort": 0})
    preemptions: int = 0
    computed_tokens: int = 0  # of prompts, those found in the cache included
    cached_tokens: int = 0
    answer_tokens: int = 0
    turned_away: int = 0  # synthetic users who met a full queue
    late_tokens: int = 0
    steps: int = 0
    busy_s: float = 0.0

    def page(self, model: str, state: ServerState, live: int) -> str:
        """The text for a scraper; ``live`` requests came over HTTP, all others are synthetic."""
        page = Page({"model_name": model, "engine": "0"})
        page.gauge("vllm:num_requests_running", "SIMULATED: requests in the batch.", len(state.running))
        page.gauge("vllm:num_requests_waiting", "SIMULATED: requests in the queue.", len(state.waiting))
        used = state.kv.used / state.kv.capacity
        page.gauge("vllm:kv_cache_usage_perc", "SIMULATED: share of KV blocks in use, 1 is all.", used)
        self._totals(page)
        self._latencies(page)
        page.gauge("localchat:live_requests", "Requests that came over HTTP and are not over.", live)
        what = "Tokens whose text was later than their simulated time."
        page.counter("localchat:late_tokens_total", what, self.late_tokens)
        what = "Synthetic users who met a full queue and went away."
        page.counter("localchat:turned_away_total", what, self.turned_away)
        page.counter("localchat:engine_steps_total", "SIMULATED: steps of the engine.", self.steps)
        page.counter("localchat:engine_busy_seconds_total", "SIMULATED: seconds in steps.", self.busy_s)
        return str(page)

    def _totals(self, page: Page) -> None:
        for name, text, value in (
            ("num_preemptions_total", "requests that gave way to others", self.preemptions),
            ("prefix_cache_queries_total", "tokens of prompts looked up in the cache", self.computed_tokens),
            ("prefix_cache_hits_total", "of these, found", self.cached_tokens),
            ("prompt_tokens_total", "tokens of prompts", self.computed_tokens),
            ("generation_tokens_total", "tokens of answers", self.answer_tokens),
        ):
            page.counter(f"vllm:{name}", f"SIMULATED: {text}.", value)
        text = "SIMULATED: requests that ended, by why."
        page.counters("vllm:request_success_total", text, "finished_reason", dict(self.ended))

    def _latencies(self, page: Page) -> None:
        for name, text, values in (
            ("time_to_first_token_seconds", "from arrival to the first token", self.ttft),
            ("inter_token_latency_seconds", "between a request's tokens", self.itl),
            ("request_time_per_output_token_seconds", "mean time per further token", self.tpot),
            ("e2e_request_latency_seconds", "from arrival to the last token", self.e2e),
            ("request_queue_time_seconds", "in the queue", self.queued),
            ("request_prompt_tokens", "length of the prompt", self.prompts),
            ("request_generation_tokens", "length of the answer", self.answers),
        ):
            page.histogram(f"vllm:{name}", f"SIMULATED: {text}.", values)


class LiveRecorder(Recorder):
    """Counts into ServingMetrics instead of summaries of a run, so that it may go on for ever."""

    metrics: ServingMetrics

    def count_into(self, metrics: ServingMetrics) -> None:
        self.metrics = metrics
        self.gaps = Gaps(metrics.itl.add)

    def stepped(self, seconds: float, sequences: int, decodes: int, waits: int) -> None:
        self.metrics.steps += 1
        self.metrics.busy_s += seconds
        self.metrics.answer_tokens += decodes
        self.gaps.step(seconds, decodes, waits)

    def leapt(self, decodes: int, steps: int, first_s: float, growth_s: float) -> None:
        for number in range(steps):
            self.stepped(first_s + number * growth_s, decodes, decodes, 0)

    def admitted(self, prompt_tokens: int, cached_tokens: int) -> None:
        self.metrics.computed_tokens += prompt_tokens
        self.metrics.cached_tokens += cached_tokens
        self.metrics.answer_tokens += 1  # comes out of its prompt

    def preempted(self, waiting_for_token: bool) -> None:
        self.metrics.preemptions += 1
        if waiting_for_token:
            self.metrics.answer_tokens += 1  # its next one comes out of computing it again
            self.gaps.lost()

    def rejected(self, rejected: Rejected) -> None:
        """Whoever submitted it is told."""

    def cancelled(self, at_s: float) -> None:
        self.metrics.ended["abort"] += 1

    def finished(self, completed: Completed) -> None:
        metrics = self.metrics
        metrics.ttft.add(completed.ttft_s)
        metrics.e2e.add(completed.e2e_s)
        metrics.queued.add(completed.queued_s)
        metrics.prompts.add(completed.request.prompt_tokens)
        metrics.answers.add(completed.output_tokens)
        if completed.tpot_s is not None:
            metrics.tpot.add(completed.tpot_s)
        at_bound = completed.output_tokens >= completed.request.max_tokens
        metrics.ended["length" if at_bound else "stop"] += 1
