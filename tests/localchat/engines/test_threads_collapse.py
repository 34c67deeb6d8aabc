"""Spinning threads that wait for each other: one token may take seconds, so one must be enough to notice."""

from __future__ import annotations

from localchat.engines.threads import ThreadTuner

QUIET, BUSY = {1: 1 / 75, 2: 1 / 110}, {1: 1 / 66, 2: 0.5}
"""Seconds a token by thread count, free and with one of two cores taken: both were measured."""


def settled_in_quiet(idle: float | None = None) -> ThreadTuner:
    tuner = ThreadTuner((1, 2), 2, None if idle is None else lambda: idle)
    for _ in range(60):
        tuner.observe(QUIET[tuner.count])
    assert tuner.settled == 2
    return tuner


def test_one_collapsed_token_is_enough() -> None:
    tuner = settled_in_quiet()
    with_two = 0
    for _ in range(30):
        with_two += tuner.count == 2
        tuner.observe(BUSY[tuner.count])
    assert (with_two, tuner.settled) == (1, 1)


def test_a_lone_hiccup_costs_a_moment() -> None:
    tuner = settled_in_quiet()
    tuner.observe(0.3)
    seconds = 0.0
    while tuner.settled == 1 or tuner.count == 1:
        took = QUIET[tuner.count]
        tuner.observe(took)
        seconds += took
    assert seconds < 1.0


def test_more_threads_are_not_tried_while_no_core_is_idle() -> None:
    tuner = settled_in_quiet(idle=0.0)
    with_two = 0
    for _ in range(66 * 60):
        with_two += tuner.count == 2
        tuner.observe(BUSY[tuner.count])
    assert with_two == 1


def test_they_are_tried_as_soon_as_one_is() -> None:
    tuner = settled_in_quiet(idle=1.0)
    for _ in range(10):
        tuner.observe(BUSY[tuner.count])
    assert tuner.settled == 1
    for _ in range(120):
        tuner.observe(QUIET[tuner.count])
    assert tuner.settled == 2
