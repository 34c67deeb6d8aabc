"""Several replicas behind a balancer: what each was sent, and who gets the next request.

Owns the balancer's book: tokens outstanding by replica, and beginnings of prompts on their
way. It hears of an end only once its time has come, though an engine may be a step ahead.
Does not know a replica's inside, but for which blocks it holds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from router.simcloud.balancing import Balancer, Load
from router.simcloud.clock import SAME_MOMENT_S
from router.simcloud.engine import Engine
from router.simcloud.kv import content_keys
from router.simcloud.request import Completed, Job, Request


class Book:
    """What one replica was sent and has not finished."""

    __slots__ = ("_ends", "engine", "on_the_way", "tokens")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.tokens = 0
        self.on_the_way: Counter[int] = Counter()  # keys of prompts that are not finished
        self._ends: deque[Completed] = deque()
        engine.tell(self._ends.append)

    def sent(self, request: Request, keys: tuple[int, ...]) -> None:
        self.tokens += outstanding_tokens(request)
        self.on_the_way.update(keys)

    def settle(self, now_s: float) -> None:
        while self._ends and self._ends[0].finished_s <= now_s + SAME_MOMENT_S:
            request = self._ends.popleft().request
            self.tokens -= outstanding_tokens(request)
            if request.prefix:
                self._forget(content_keys(request, self.engine.state.kv.block_tokens))

    def load(self, keys: tuple[int, ...]) -> Load:
        coming = next((place for place, key in enumerate(keys) if key not in self.on_the_way), len(keys))
        return Load(self.tokens, max(coming, self.engine.state.kv.known(keys)))

    def _forget(self, keys: tuple[int, ...]) -> None:
        for key in keys:
            self.on_the_way[key] -= 1
            if not self.on_the_way[key]:
                del self.on_the_way[key]


class Cluster:
    """``route`` is what a Loop asks; ``choose`` the same for a time other than the request's arrival."""

    def __init__(self, engines: Sequence[Engine], balancer: Balancer) -> None:
        self.engines = tuple(engines)
        self.balancer = balancer
        self.sent = [0] * len(engines)
        self._books = [Book(engine) for engine in engines]
        self._turn = 0

    def route(self, job: Job, engines: Sequence[Engine]) -> Engine:
        return self.choose(job.request, job.request.arrived_s)

    def choose(self, request: Request, now_s: float) -> Engine:
        for book in self._books:
            book.settle(now_s)
        keys = content_keys(request, self._books[0].engine.state.kv.block_tokens)
        place = self.balancer.choose([book.load(keys) for book in self._books], self._turn)
        self._turn += 1
        chosen = self._books[place]
        self.sent[place] += 1
        if chosen.engine.fits(request):  # otherwise it is rejected, and never ends
            chosen.sent(request, keys)
        return chosen.engine


def outstanding_tokens(request: Request) -> int:
    """What a balancer expects of a request: its prompt, and the prediction or bound of its answer."""
    predicted = request.predicted_tokens
    return request.prompt_tokens + round(request.max_tokens if predicted is None else predicted)
