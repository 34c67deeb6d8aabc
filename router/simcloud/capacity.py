"""The largest rate of requests that a deployment serves within its service level.

Owns the search. What is served and how it is judged is a function given to it.
"""

from __future__ import annotations

from collections.abc import Callable

MOST_DOUBLED = 1024


def largest_rate(meets: Callable[[float], bool], start: float, within: float = 0.02) -> float:
    """By bisection, to ``within`` of itself; 0 if not even a thousandth of ``start`` is met.

    At most 1024 times ``start``: what is met there is not limited by the rate.
    ``meets`` is taken to hold below some rate and to fail above it.
    """
    low, high = 0.0, start
    while meets(high):
        low, high = high, 2 * high
        if low >= MOST_DOUBLED * start:
            return low
    while high > start / 1000 and high - low > within * high:
        middle = (low + high) / 2
        if meets(middle):
            low = middle
        else:
            high = middle
    return low
