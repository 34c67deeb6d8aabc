"""Several answers to one request, drawn side by side: each step computes one token of all that go on.

Owns the ballot: who has ended, what each said. Knows neither prompts nor caches: the generator has
computed the prompt before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from localchat.engines.constraint import Constraint
from localchat.engines.runtime import Branches, Logits, Runtime
from localchat.engines.sampler import Sampler
from localchat.engines.text import TextStream
from router.request import Sampling

MOST_TOKENS = 64
"""Of an answer: each has room of its own in the branches' context, and long ones hardly ever agree."""
MOST_VOTES = 16  # so that the room of all of them stays about a thousand tokens


class _Voter:
    """One of the answers."""

    def __init__(self, runtime: Runtime, sampling: Sampling, constraint: Constraint | None) -> None:
        self._runtime, self._sampler, self._constraint = runtime, Sampler(sampling), constraint
        self._stream = TextStream(sampling.stop)
        self.text, self.tokens = "", 0

    def choose(self, logits: Logits) -> int | None:
        """The next token to be computed; None at the end of this answer."""
        self._sampler.penalise(logits)
        if self._constraint:
            self._constraint.apply(logits)
        token = self._sampler.draw(logits)
        if self._runtime.is_end(token):
            return None
        self.tokens += 1
        self.text += self._stream.feed(self._runtime.piece(token))
        self._sampler.accept(token)
        if self._constraint:
            self._constraint.accept(token)
        ended = self._stream.stopped or (self._constraint and self._constraint.complete)
        return None if ended else token

    def end(self) -> str:
        return self.text + self._stream.end()


def ballot(
    runtime: Runtime,
    sampling: Sampling,
    constraints: Sequence[Constraint | None],
    limit: int,
) -> tuple[tuple[str, ...], int]:
    """An answer for each of ``constraints``, of at most ``limit`` tokens, and how often was computed.

    The runtime has just computed the prompt: all begin with its logits. Raises Aborted.
    """
    voters = [
        _Voter(runtime, _seeded(sampling, number), constraint)
        for number, constraint in enumerate(constraints)
    ]
    first = runtime.logits().copy()
    chosen = {at: voter.choose(first.copy()) for at, voter in enumerate(voters)}
    calls, branches = 0, None
    try:
        while going := _going(chosen, voters, limit):
            branches = branches or runtime.branches(len(voters), limit)
            branches.eval(going)
            calls += 1
            chosen = {at: voters[at].choose(_row(branches, at)) for at in going}
    finally:
        if branches:
            branches.close()
    return tuple(voter.end() for voter in voters), calls


def _going(chosen: dict[int, int | None], voters: Sequence[_Voter], limit: int) -> dict[int, int]:
    return {at: token for at, token in chosen.items() if token is not None and voters[at].tokens < limit}


def _row(branches: Branches, at: int) -> Logits:
    return branches.logits(at).copy()  # a constraint writes into it


def _seeded(sampling: Sampling, number: int) -> Sampling:
    """Each voter draws for itself; the first as a plain answer would."""
    return sampling if sampling.seed is None else replace(sampling, seed=sampling.seed + number)
