"""Prompts on some GPUs, answers on others: keys and values travel between them over a shared link.

Owns a request's way: prefill pool, transfer, decode pool. A prompt's blocks stay taken on its prefill
replica until the transfer has ended; the decode replica is chosen then, and takes blocks when it
admits. Does not know how a replica batches. Semantics after DistServe, Splitwise and Mooncake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from router.simcloud.clock import SAME_MOMENT_S
from router.simcloud.cluster import Cluster
from router.simcloud.link import SharedLink
from router.simcloud.loop import Loop
from router.simcloud.metrics import Recorder
from router.simcloud.quantiles import Quantiles
from router.simcloud.request import Completed, Job, Rejected


@dataclass(frozen=True, slots=True)
class Transfer:
    """``alone_s``: what it would have taken with the link for itself."""

    request: int
    began_s: float
    ended_s: float
    alone_s: float

    @property
    def seconds(self) -> float:
        return self.ended_s - self.began_s


class Disaggregated:
    """``prefill`` engines hold what ends (Engine ``holds``). ``ended`` hears of requests that end without a
    decode replica: of one token, or rejected."""

    def __init__(
        self,
        prefill: Cluster,
        decode: Cluster,
        link: SharedLink,
        kv_bytes_per_token: float,
        ended: Recorder,
        each: Callable[[Transfer], None] | None = None,
    ) -> None:
        self.prefill, self.decode, self.link, self.ended = prefill, decode, link, ended
        self.transfer_s, self.contention_s = Quantiles(), Quantiles()
        self.arrived = 0
        self._bytes_per_token = kv_bytes_per_token
        self._each = each
        self._jobs: dict[int, Job] = {}  # in the prefill pool or on the link
        self._travelling: dict[int, tuple[Completed, float, float]] = {}  # transfer -> what, when, bytes
        self._watched_s = -1.0
        for engine in prefill.engines:
            engine.tell(self._prefilled)

    @property
    def on_the_way(self) -> int:
        """Requests that no decode replica knows yet."""
        return len(self._jobs)

    def over(self, jobs: Iterable[Job]) -> Loop:
        """The loop that serves ``jobs``."""
        engines = [*self.prefill.engines, *self.decode.engines]
        self.loop = Loop(engines, jobs, dependent=True, quiet=self.decode.engines, submit=self._enter)
        return self.loop

    def _enter(self, job: Job) -> None:
        request = job.request
        self.arrived += 1
        self.ended.arrived(request.arrived_s)
        first = replace(request, max_tokens=1)
        if not (self.prefill.engines[0].fits(first) and self.decode.engines[0].fits(request)):
            self.ended.rejected(Rejected(request, request.arrived_s, "larger than the KV cache"))
            return
        self._jobs[request.id] = job
        self.prefill.choose(first, request.arrived_s).submit(Job(first, 1))

    def _prefilled(self, done: Completed) -> None:
        """The first token is out; the rest is another replica's."""
        self.loop.at(done.finished_s, lambda: self._send(done))

    def _send(self, done: Completed) -> None:
        job = self._jobs[done.request.id]
        if job.length == 1:
            self._leave(done, done.finished_s)
            self.ended.finished(replace(done, request=job.request))
            return
        size = done.request.prompt_tokens * self._bytes_per_token
        self._travelling[self.link.start(done.finished_s, size)] = (done, done.finished_s, size)
        self._watch()

    def _watch(self) -> None:
        """Wakes up when the next transfer ends, as things stand now."""
        if self.link.transfers:
            when_s = self._watched_s = self.link.next_end_s()
            self.loop.at(when_s, lambda: self._look(when_s))

    def _look(self, when_s: float) -> None:
        if when_s != self._watched_s:
            return  # the link has got busier or freer since
        while self.link.transfers and self.link.next_end_s() <= when_s + SAME_MOMENT_S:
            number, there_s = self.link.finish_first()
            self._note(number, there_s)
        self._watch()

    def _note(self, number: int, there_s: float) -> None:
        done, began_s, size = self._travelling.pop(number)
        alone_s = size / self.link.bytes_per_s + self.link.latency_s
        transfer = Transfer(done.request.id, began_s, there_s, alone_s)
        self.transfer_s.add(transfer.seconds)
        self.contention_s.add(max(0.0, transfer.seconds - alone_s))
        if self._each is not None:
            self._each(transfer)
        self.loop.at(there_s, lambda: self._hand_over(done, there_s))

    def _hand_over(self, done: Completed, at_s: float) -> None:
        job = self._leave(done, at_s)
        self.decode.choose(job.request, at_s).receive(job, done, at_s)

    def _leave(self, done: Completed, at_s: float) -> Job:
        self.prefill.engines[done.replica].let_go(done.request.id, at_s)
        return self._jobs.pop(done.request.id)
