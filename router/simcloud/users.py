"""Synthetic users of a live simulated server: when they come and what they ask, drawn from a seed.

Owns their rate and lengths. Does not know the server; who meets a full queue goes away.
"""

from __future__ import annotations

import math
import random

from router.errors import InvalidSimulation
from router.simcloud.request import Job, Request
from router.simcloud.workload import Lengths, lognormal

MOST_PER_S = 1000.0
BOUND_TOKENS = 1024  # what users ask for at most; most answers end earlier
USUAL_LENGTHS = lognormal(300, 200, 0.9, BOUND_TOKENS)
"""Medians, spread and cut of a made-up chat load, in the range of published conversation lists
(vidur's conv4k has answers of about 260 tokens on average). Not fitted to any."""


class Users:
    """Poisson arrivals, ``per_s`` on average; 0 is nobody."""

    def __init__(self, per_s: float, seed: int = 0, lengths: Lengths = USUAL_LENGTHS) -> None:
        if not 0 <= per_s <= MOST_PER_S:
            raise InvalidSimulation(f"The load must be between 0 and {MOST_PER_S:g} requests/s.")
        self.per_s = per_s
        self.seed = seed
        self._lengths = lengths
        self._draw = random.Random(seed)
        self.next_s = math.inf

    def begin(self, now_s: float) -> None:
        """The first comes some time after ``now_s``."""
        self.next_s = now_s + self._draw.expovariate(self.per_s) if self.per_s else math.inf

    def arrive(self, number: int) -> Job:
        """The one who comes at ``next_s``; sets when the next does."""
        prompt, answer = self._lengths(self._draw)
        job = Job(Request(number, self.next_s, prompt, BOUND_TOKENS), answer)
        self.begin(self.next_s)
        return job
