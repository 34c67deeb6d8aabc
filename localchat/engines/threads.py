"""How many threads: measured on first use, kept, and adapted while running.

Spinning thread pools collapse when there are more runnable threads than free
cores (24 to 1 token/s was seen), so another program taking a core must be
noticed within a few tokens. Pure: it is fed durations and gives counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

RECENT = 6  # tokens whose median is "the speed now"
TRIAL = 4  # tokens a trial takes, the first of which is not counted
SLOWER = 1.25  # times the usual: something took a core
MUCH_SLOWER = 2.0  # two tokens in a row: no need to wait for a median
COLLAPSED = 10.0  # one token: spinning threads wait for each other
TOO_LONG_S = 2.0  # for the first few: threads that collapse from the beginning are tried with fewer at once
FIRST_WAIT_S, LAST_WAIT_S = 0.5, 8.0
"""Between trials of more threads: doubled after each that did not pay, so that
a long contention costs a few per cent and its end is noticed in seconds."""


class ThreadTuner:
    """Chooses among ``counts`` (ascending), starting from ``count``.

    ``count`` is to be used for the next token; ``settled`` is the choice that a
    trial may be testing.
    """

    def __init__(
        self, counts: Sequence[int], count: int, idle_cores: Callable[[], float] | None = None
    ) -> None:
        """``idle_cores`` tells how many cores were idle since it was last asked: more
        threads are then tried only where there is room. None: tried now and then."""
        self._counts = tuple(counts)
        self._idle_cores = idle_cores
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._trial: list[float] | None = None
        self._usual = 0.0  # seconds a token, 0.0 until known
        self._waited = 0.0
        self._wait = FIRST_WAIT_S
        self._untested = True  # fewer threads may be faster: the count may come from another day
        self._settle(count)

    def observe(self, seconds: float, spent_s: float | None = None) -> int:
        """Take in the seconds one token took with :attr:`count`; the count for the next.

        ``spent_s``: of all the tokens that were computed at once, where there were several.
        """
        if self._trial is not None:
            self._judge_trial(seconds)
            return self.count
        self._recent.append(seconds)
        self._waited += seconds if spent_s is None else spent_s
        if self._untested and self._lower and self._waited > TOO_LONG_S:
            self._start(self._lower)  # there is no usual yet to see it by
            return self.count
        if self._lower and self._collapsed():
            self._recent = deque((seconds,), RECENT)  # what went before is over
            self._start(self._lower)
        if len(self._recent) < RECENT or not (self._lower or self._higher):
            return self.count
        now = median(self._recent)
        usual = self._usual or now
        if self._lower and (now > SLOWER * usual or self._untested):
            self._start(self._lower)
        elif self._higher and self._waited >= self._wait and self._has_room():
            self._start(self._higher)
        else:  # deeper contexts are slower, slowly: follow
            self._usual = usual + 0.05 * (min(now, SLOWER * usual) - usual)
        return self.count

    def _collapsed(self) -> bool:
        last, before = self._recent[-1], self._recent[-2] if len(self._recent) > 1 else 0.0
        return bool(self._usual) and (
            last > COLLAPSED * self._usual or min(last, before) > MUCH_SLOWER * self._usual
        )

    def _has_room(self) -> bool:
        """Asked once a wait: a trial among busy cores may cost seconds."""
        if self._idle_cores is None or self._idle_cores() >= 0.5 * (self._higher - self.settled):
            return True
        self._waited = 0.0
        return False

    def _settle(self, count: int) -> None:
        self.count = self.settled = count
        self._lower = max((c for c in self._counts if c < count), default=0)
        self._higher = min((c for c in self._counts if c > count), default=0)

    def _start(self, count: int) -> None:
        self.count, self._trial = count, []

    def _judge_trial(self, seconds: float) -> None:
        assert self._trial is not None
        self._trial.append(seconds)
        incumbent = median(self._recent)
        hopeless = seconds > 3.0 * incumbent or (len(self._trial) > 1 and min(self._trial) > 1.5 * incumbent)
        if len(self._trial) < TRIAL and not hopeless:
            return
        candidate, rose = median(self._trial[1:] or self._trial), self.count > self.settled
        if candidate < 0.95 * incumbent:
            self._usual = candidate
            self._recent.clear()
            self._wait = FIRST_WAIT_S
            self._untested = not rose
            self._settle(self.count)
        else:
            self._usual = incumbent
            self._settle(self.settled)
            if rose:
                self._wait = min(2 * self._wait, LAST_WAIT_S)
            else:
                self._untested = False
        self._trial, self._waited = None, 0.0


def median(values: Iterable[float]) -> float:
    """The upper median: of a handful, at a third of the time of statistics.median."""
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
