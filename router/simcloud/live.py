"""A simulated server in real time: its clock is the wall's, and others come and go beside your requests.

Owns the joining of the two clocks, the synthetic users, and when each token of a request is
due. Knows neither text nor HTTP. Everything runs in one event loop's thread.

Steps are simulated as soon as they begin, so the time of a token is known one step before it
is due. One timer rings when a step ends, and lets out the tokens of all requests in it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import takewhile

from router.errors import CloudBusy, InvalidSimulation
from router.simcloud.clock import SAME_MOMENT_S
from router.simcloud.deployment import Deployment, Parts, build
from router.simcloud.gpu import find_gpu
from router.simcloud.llm import find_llm
from router.simcloud.request import Job, Request
from router.simcloud.serving_metrics import LiveRecorder, ServingMetrics
from router.simcloud.state import Sequence
from router.simcloud.users import Users

MOST_WAITING = 512
"""Requests in the queue; more are turned away, so that an overloaded server stays of bounded size."""

LONGEST_LAG_S = 2.0
"""A process that did not run for longer (stopped, suspended) goes on where it was: time stood still."""

ASK_AGAIN_S = 0.001  # of a policy that waits though there is a queue

EARLY_S = 0.001
MOST_EARLY_S = 0.004
SEND_S = 50e-6  # of one token, on two cores of an AMD EPYC: benchmarks/bench_cloud.py
"""Timers are set so much before a token is due: those of asyncio ring up to a millisecond late
(selectors rounds its timeout up), and the tokens of a step go out one after the other."""


@dataclass(slots=True, eq=False)
class Ticket:
    """One request's way through the server. ``due_s``: when its tokens so far were due, of the live clock.

    ``queued`` waited before it and ``running`` were computed when it came; ``batch`` with its first token.
    """

    number: int
    queued: int
    running: int
    arrived_s: float
    due_s: list[float] = field(default_factory=list)
    batch: int = 0
    queue_s: float = 0.0
    cached_tokens: int = 0
    failed: Exception | None = None
    _waiter: asyncio.Future[None] | None = None

    async def token_s(self, index: int) -> float:
        """Waits until token ``index`` is due; returns when exactly that was."""
        while index >= len(self.due_s):
            if self.failed:
                raise self.failed
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.due_s[index]

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class LiveServer:
    """Runs between ``start`` and ``close``; ``clock`` is that of the event loop."""

    def __init__(
        self, deployment: Deployment, users: Users | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Raises InvalidSimulation for what cannot be built."""
        self.metrics = ServingMetrics()
        self.users = users or Users(0.0)
        self.deployment = deployment
        self._clock = clock
        self._zero_s = 0.0  # of the live clock, on the wall's
        self._next_s = math.inf  # when the timer was to ring
        self.started = False
        self._tickets: dict[int, Ticket] = {}
        self._coming: deque[tuple[float, Ticket]] = deque()  # tokens that are not due yet
        self._numbers = 0
        self._timer: asyncio.TimerHandle | None = None
        self.gpu = find_gpu(deployment.gpu).device.name
        self._parts = self._build(deployment)

    def _build(self, deployment: Deployment) -> Parts:
        parts = build(deployment, record=LiveRecorder)
        assert isinstance(parts.recorder, LiveRecorder)
        parts.recorder.count_into(self.metrics)
        return parts

    # -- what it is

    @property
    def model(self) -> str:
        return self.deployment.model

    @property
    def running(self) -> int:
        return len(self._parts.engine.state.running)

    @property
    def waiting(self) -> int:
        return len(self._parts.engine.state.waiting)

    @property
    def live(self) -> int:
        return len(self._tickets)

    @property
    def kv_free(self) -> int:
        return self._parts.kv.free

    @property
    def kv_used(self) -> int:
        return self._parts.kv.used

    @property
    def window_tokens(self) -> int:
        """Of the model, or as much as the KV cache can hold for one request."""
        kv = self._parts.kv
        return min(find_llm(self.model).window_tokens, kv.capacity * kv.block_tokens)

    def page(self, model: str) -> str:
        """All figures, for a scraper."""
        return self.metrics.page(model, self._parts.engine.state, self.live)

    # -- time

    @property
    def now_s(self) -> float:
        return self._clock() - self._zero_s

    def wall_s(self, live_s: float) -> float:
        return live_s + self._zero_s

    def start(self) -> None:
        self._zero_s = self._clock()
        self.started = True
        self.users.begin(0.0)
        self.keep_up()

    def close(self) -> None:
        """Nothing moves any more; those who wait are told."""
        if self._timer:
            self._timer.cancel()
        self._timer = None
        for ticket in self._tickets.values():
            ticket.failed = CloudBusy("The simulated cloud was closed.", "Start it again.", may_pass=False)
            ticket.wake()

    # -- requests

    def submit(
        self, prompt_tokens: int, max_tokens: int, *, length: int | None = None, prefix: tuple[int, ...] = ()
    ) -> Ticket:
        """Queue a request; without a ``length`` it goes on until ``end_after``, or to its bound.

        Raises CloudBusy where the queue is full.
        """
        self.keep_up()
        queued, running = self.waiting, self.running
        if queued >= MOST_WAITING:
            raise CloudBusy("The simulated queue is full.", "Lower the load.", retry_after_s=1.0)
        self._numbers += 1
        request = Request(self._numbers, self.now_s, prompt_tokens, max_tokens, prefix=prefix)
        rejected = self._parts.engine.submit(Job(request, length))
        if rejected:
            raise InvalidSimulation(f"The request is {rejected.why}.", "Ask for fewer tokens.")
        ticket = self._tickets[request.id] = Ticket(request.id, queued, running, request.arrived_s)
        self._parts.engine.watch(request.id, self._token_out)
        self.keep_up()
        return ticket

    def end_after(self, ticket: Ticket, tokens: int) -> None:
        """The answer turns out to have so many tokens."""
        self.keep_up()
        self._parts.engine.intervene.end_after(ticket.number, max(1, tokens))
        self.keep_up()

    def leave(self, ticket: Ticket) -> None:
        """Nobody reads the answer any more: what is left of it is called off. Idempotent."""
        if self._tickets.pop(ticket.number, None) is not None:
            self._parts.engine.cancel(ticket.number, self.now_s)
            self.keep_up()

    # -- changes while it runs

    def welcome(self, users: Users) -> None:
        """Other synthetic users from now on; those who are there stay."""
        self.keep_up()
        self.users = users
        users.begin(self.now_s)
        self.keep_up()

    def redeploy(self, deployment: Deployment) -> None:
        """Another GPU, policy or model. All who are there move and are computed again; no token comes twice.

        Who can never run on the new one is told. Raises InvalidSimulation, and then nothing has changed.
        """
        parts = self._build(deployment)
        self.keep_up()
        old, self._parts, self.deployment = self._parts.engine, parts, deployment
        self.gpu = find_gpu(deployment.gpu).device.name
        inside = old.evacuate()
        parts.engine.wait_until(old.now_s)
        for sequence, length in inside:
            number = sequence.request.id
            if parts.engine.adopt(sequence, length):
                if number in self._tickets:
                    parts.engine.watch(number, self._token_out)
            elif ticket := self._tickets.get(number):
                ticket.failed = InvalidSimulation(
                    "The request no longer fits the simulated GPU.", "Ask again."
                )
                ticket.wake()
        self.keep_up()

    # -- the simulation keeps up with the wall

    def _token_out(self, sequence: Sequence, out_s: float, batch: int) -> None:
        ticket = self._tickets.get(sequence.request.id)
        if ticket is None:
            return
        if not ticket.batch:
            ticket.batch, ticket.cached_tokens = batch, sequence.cached_tokens
            ticket.queue_s = max(0.0, sequence.admitted_s - sequence.request.arrived_s)
        self._coming.append((out_s, ticket))

    def _let_out(self) -> None:
        """Tokens that are due by now; those of one step have the same time."""
        now_s = self.now_s
        while self._coming and self._coming[0][0] - self._early_s() <= now_s:
            step_s = self._coming[0][0]
            while self._coming and self._coming[0][0] == step_s:
                out_s, ticket = self._coming.popleft()
                ticket.due_s.append(out_s)
                ticket.wake()

    def _early_s(self) -> float:
        """How long before its time the next step's tokens are let out: their sending takes a while, one
        after another, so that the first are as early as the last are late."""
        step_s = self._coming[0][0]
        count = sum(1 for _ in takewhile(lambda token: token[0] == step_s, self._coming))
        return min(MOST_EARLY_S, EARLY_S + count * SEND_S / 2)

    def keep_up(self) -> None:
        """All that has begun until now has happened; a timer does the same when something begins next."""
        if self.now_s - self._next_s > LONGEST_LAG_S:
            self._zero_s += self.now_s - self._next_s
        now_s = self.now_s
        while self.users.next_s <= now_s:
            self._parts.engine.advance(self.users.next_s)
            self._user_comes()
        self._parts.engine.advance(now_s + SAME_MOMENT_S)
        self._let_out()
        self._set_timer(now_s)

    def _user_comes(self) -> None:
        self._numbers += 1
        job = self.users.arrive(self._numbers)
        if self.waiting < MOST_WAITING:
            self._parts.engine.submit(job)
        else:
            self.metrics.turned_away += 1

    def _set_timer(self, now_s: float) -> None:
        """For the end of the step that runs, or the next user."""
        engine = self._parts.engine
        next_s = self._coming[0][0] - self._early_s() if self._coming else math.inf
        if engine.busy:
            next_s = min(
                next_s, engine.now_s if engine.now_s > now_s + SAME_MOMENT_S else now_s + ASK_AGAIN_S
            )
        self._next_s = min(next_s, self.users.next_s)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._next_s < math.inf:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(0.0, self._next_s - now_s), self._ring)

    def _ring(self) -> None:
        self._let_out()
        asyncio.get_running_loop().call_soon(self._go_on)  # after those who were let out

    def _go_on(self) -> None:
        if self._timer is None:
            return  # it was closed meanwhile
        try:
            self.keep_up()
        except Exception as error:  # a fault of the simulation: those inside are told, and it begins anew
            for ticket in self._tickets.values():
                ticket.failed = error
                ticket.wake()
            self._parts = self._build(self.deployment)
            self._set_timer(self.now_s)
            raise


def changed(deployment: Deployment, gpu: str | None = None, policy: str | None = None) -> Deployment:
    """With another GPU or policy."""
    deployment = deployment if gpu is None else replace(deployment, gpu=gpu)
    return deployment if policy is None else replace(deployment, policy=policy)
