"""Which replica gets a request: three answers, as functions over plain loads.

Owns the rules and their names. Does not know engines, time or how loads are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from router.errors import InvalidSimulation


class Load(NamedTuple):
    """``tokens``: prompts and answers' bounds of all it was sent and has not finished.

    ``known_blocks`` of the request's beginning it holds, or was sent already.
    """

    tokens: int
    known_blocks: int = 0


class Balancer(Protocol):
    @property
    def name(self) -> str: ...

    def choose(self, loads: Sequence[Load], turn: int) -> int:
        """The place of the replica for the ``turn``-th request (from 0)."""
        ...


@dataclass(frozen=True, slots=True)
class RoundRobin:
    name: str = "round-robin"

    def choose(self, loads: Sequence[Load], turn: int) -> int:
        return turn % len(loads)


@dataclass(frozen=True, slots=True)
class LeastLoaded:
    """The fewest tokens outstanding; the first of equals."""

    name: str = "least-loaded"

    def choose(self, loads: Sequence[Load], turn: int) -> int:
        return min(range(len(loads)), key=lambda place: loads[place].tokens)


@dataclass(frozen=True, slots=True)
class PrefixAware:
    """The longest known beginning, among replicas that are not overloaded: those with no more than
    ``slack_tokens`` above the least loaded, or no more than ``factor`` times its tokens. Of equals the
    least loaded. The two thresholds and 1.5 are as in the router of SGLang, there counted in requests."""

    factor: float = 1.5
    slack_tokens: int = 32_768  # our choice: four prompts of 8k
    name: str = "prefix-aware"

    def choose(self, loads: Sequence[Load], turn: int) -> int:
        least = min(load.tokens for load in loads)
        bound = max(least + self.slack_tokens, least * self.factor)
        able = [place for place, load in enumerate(loads) if load.tokens <= bound]
        return min(able, key=lambda place: (-loads[place].known_blocks, loads[place].tokens))


BALANCERS: dict[str, Callable[[], Balancer]] = {
    "round-robin": RoundRobin,
    "least-loaded": LeastLoaded,
    "prefix-aware": PrefixAware,
}


def find_balancer(name: str) -> Balancer:
    build = BALANCERS.get(name)
    if build is None:
        raise InvalidSimulation(f"No balancer is called {name!r}.", f"There are: {', '.join(BALANCERS)}.")
    return build()
