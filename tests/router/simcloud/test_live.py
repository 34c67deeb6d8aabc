"""The parts beside the live server: its clock, users, door, page for a scraper, scripted text."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import CloudBusy, CloudRefused, InvalidSimulation, RouterError
from router.request import ChatRequest, Message, Sampling
from router.simcloud.door import Door
from router.simcloud.live import LiveServer
from router.simcloud.prometheus import Histogram, Page
from router.simcloud.text_source import ScriptedText, TextEnd, TextToken, estimated
from router.simcloud.users import Users
from tests.router.simcloud.live_cloud import FAST


class Wall:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


async def test_time_of_a_process_that_did_not_run_is_not_made_up_for() -> None:
    wall = Wall()
    server = LiveServer(FAST, Users(50.0, 1), wall)
    server.start()
    for _ in range(20):
        wall.now_s += 0.05
        server.keep_up()
    steps = server.metrics.steps
    wall.now_s += 3600  # suspended for an hour
    server.keep_up()
    assert server.metrics.steps - steps < 2000
    assert server.now_s < 10
    server.close()


async def test_the_same_seed_brings_the_same_users() -> None:
    pages = []
    for _ in range(2):
        wall = Wall()
        server = LiveServer(FAST, Users(50.0, 7), wall)
        server.start()
        for _ in range(40):
            wall.now_s += 0.05
            server.keep_up()
        pages.append(server.page("m"))
        server.close()
    assert pages[0] == pages[1]


async def test_memory_does_not_grow_while_users_come_and_go() -> None:
    wall = Wall()
    server = LiveServer(FAST, Users(30.0, 2), wall)
    server.start()
    for _ in range(400):
        wall.now_s += 0.5
        server.keep_up()
    state = server._parts.engine.state
    ended = sum(server.metrics.ended.values())
    assert ended > 5000
    assert len(server._parts.engine._lengths) == len(state.running) + len(state.waiting) < 200
    assert len(server._coming) == 0
    server.close()


async def test_those_who_wait_are_told_when_it_is_closed() -> None:
    wall = Wall()
    server = LiveServer(FAST, None, wall)
    server.start()
    ticket = server.submit(100, 50)
    server.close()
    with pytest.raises(RouterError, match="closed"):
        await ticket.token_s(0)


@given(st.floats(0.1, 200.0), st.integers(0, 100))
def test_users_come_at_their_rate(per_s: float, seed: int) -> None:
    users = Users(per_s, seed)
    users.begin(0.0)
    jobs = [users.arrive(number) for number in range(500)]
    times = [job.request.arrived_s for job in jobs]
    assert times == sorted(times)
    assert 0.75 < times[-1] * per_s / 500 < 1.3
    assert all(1 <= job.length <= job.request.max_tokens for job in jobs)


def test_nobody_comes_at_rate_0() -> None:
    users = Users(0.0)
    users.begin(5.0)
    assert users.next_s == math.inf
    with pytest.raises(InvalidSimulation):
        Users(math.nan)


@given(st.lists(st.floats(0.0, 10.0), max_size=200), st.integers(1, 60))
def test_a_limit_a_minute_holds_over_any_minute(gaps: list[float], per_minute: int) -> None:
    door, now_s, entered = Door(per_minute=per_minute), 100.0, []
    for gap_s in gaps:
        now_s += gap_s
        with suppress(CloudBusy):
            door.enter("", "1.2.3.4", now_s)
            entered.append(now_s)
    for begin_s in entered:  # those saved up, and those that came meanwhile
        assert sum(begin_s <= at_s < begin_s + 60 for at_s in entered) <= 2 * per_minute + 1


def test_one_callers_requests_are_not_anothers() -> None:
    door = Door(per_minute=1)
    door.enter("", "a", 0.0)
    door.enter("", "b", 0.0)
    with pytest.raises(CloudBusy) as refused:
        door.enter("", "a", 30.0)
    assert refused.value.retry_after_s == pytest.approx(30.0)
    door.enter("", "a", 60.0)


@pytest.mark.parametrize(
    "given_key", ["", "Bearer", "Bearer wrong", "Basic right", "right", "Bearer righ", "Bearer rightt"]
)
def test_a_wrong_key_is_refused(given_key: str) -> None:
    with pytest.raises(CloudRefused):
        Door(("right",)).check(given_key)


def test_a_page_can_be_scraped() -> None:
    page, values = Page({"model": 'a "b"\n'}), Histogram((0.1, 1.0))
    for value in (0.05, 0.1, 0.5, 7.0):
        values.add(value)
    page.histogram("x_seconds", "Seconds.", values)
    page.counters("y_total", "Ends.", "why", {"stop": 1, "length": 2})
    label = r'model="a \"b\"\n"'
    assert str(page).splitlines() == [
        "# HELP x_seconds Seconds.",
        "# TYPE x_seconds histogram",
        f'x_seconds_bucket{{{label},le="0.1"}} 2',
        f'x_seconds_bucket{{{label},le="1.0"}} 3',
        f'x_seconds_bucket{{{label},le="+Inf"}} 4',
        f"x_seconds_sum{{{label}}} 7.65",
        f"x_seconds_count{{{label}}} 4",
        "# HELP y_total Ends.",
        "# TYPE y_total counter",
        f'y_total{{{label},why="stop"}} 1',
        f'y_total{{{label},why="length"}} 2',
    ]


async def words(source: ScriptedText, sampling: Sampling) -> tuple[str, str]:
    text, reason = "", ""
    async for piece in source.stream(ChatRequest((Message("user", "hi"),), sampling)):
        if isinstance(piece, TextToken):
            text += piece.text
        elif isinstance(piece, TextEnd):
            reason = piece.reason
    return text, reason


async def test_scripted_text_honours_limit_and_stop() -> None:
    source = ScriptedText("One two three four.")
    assert await words(source, Sampling()) == ("One two three four.", "stop")
    assert await words(source, Sampling(max_tokens=2)) == ("One two", "length")
    assert await words(source, Sampling(stop=("thr",))) == ("One two ", "stop")
    assert await words(source, Sampling(stop=("wo th", "four"))) == ("One t", "stop")


@given(st.lists(st.text(max_size=100), min_size=1, max_size=5))
def test_more_text_is_never_fewer_tokens(texts: list[str]) -> None:
    messages = [Message("user", text) for text in texts]
    count = estimated(messages)
    assert count.is_estimate
    assert count.tokens >= estimated(messages[:1]).tokens >= 1
