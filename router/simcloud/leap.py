"""How far a run of decode steps may be taken in one leap: the arithmetic of their durations.

Owns sums of arithmetic series, and how many of their terms lie before a time. Knows no engine.
"""

from __future__ import annotations

import math


def series_s(steps: int, first_s: float, growth_s: float) -> float:
    """Seconds of ``steps`` steps, each ``growth_s`` longer than the one before."""
    return steps * first_s + growth_s * (steps * (steps - 1) / 2)


def steps_begun_before(left_s: float, ahead: int, first_s: float, growth_s: float, at_most: int) -> int:
    """How many of the coming steps are planned before ``left_s`` have passed; at least one.

    Each is planned ``ahead`` steps before it begins.
    """
    if left_s <= 0.0:
        return 1
    if left_s == math.inf or series_s(at_most - 1 - ahead, first_s, growth_s) < left_s:
        return at_most
    # The largest number of steps whose series stays below left_s.
    if growth_s > 0.0:
        half = first_s - growth_s / 2
        steps = int((math.sqrt(half * half + 2 * growth_s * left_s) - half) / growth_s)
    else:
        steps = int(left_s / first_s)
    while steps > 0 and series_s(steps, first_s, growth_s) >= left_s:
        steps -= 1
    while series_s(steps + 1, first_s, growth_s) < left_s:
        steps += 1
    return min(at_most, steps + 1 + ahead)
