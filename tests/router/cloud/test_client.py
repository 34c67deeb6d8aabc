"""The client against a real server: answers, figures, keys, and leaving early."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from router.cloud.breaker import Breaker
from router.cloud.client.backend import CloudBackend
from router.cloud.keys import ApiKey, FoundKey
from router.cloud.target import Deadlines, Target, make_target
from router.errors import CloudMisconfigured
from router.prices import Price
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Finished,
    Message,
    Notice,
    Sampling,
    Simulated,
    ToolCall,
    Tools,
    Usage,
)
from tests.router.cloud.cloud_server import DONE, JSON, Answer, Cloud, chunk, running_cloud

REQUEST = ChatRequest((Message("user", "hi"),), Sampling(max_tokens=50))
SECRET = "sk-test-0123456789"


class Time:
    """A clock that stands still but for the waits it is asked for."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.waits_s: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        self.waits_s.append(seconds)
        self.now_s += seconds


def target_of(cloud: Cloud, **changes: Any) -> Target:
    deadlines = Deadlines(connect_s=2, first_token_s=5, idle_s=5, total_s=20)
    return replace(
        make_target("custom", base_url=cloud.url, model="tiny"), **{"deadlines": deadlines, **changes}
    )


def backend_of(cloud: Cloud, key: str = "", **options: Any) -> CloudBackend:
    changes = {name: options.pop(name) for name in ("deadlines", "temperature", "price") if name in options}
    found = FoundKey(ApiKey(key) if key else None, "a test")
    return CloudBackend(target_of(cloud, **changes), lambda: found, chance=lambda: 0.0, **options)


async def answer_of(backend: CloudBackend, request: ChatRequest = REQUEST) -> list[Event]:
    try:
        return [event async for event in backend.stream(request)]
    finally:
        await backend.close()


@pytest.fixture
async def cloud() -> AsyncIterator[Cloud]:
    async with running_cloud() as cloud:
        yield cloud


def finish(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]


async def test_an_answer_streams_and_is_counted(cloud: Cloud) -> None:
    events = await answer_of(backend_of(cloud, price=Price(2.0, 8.0, 0.5)))
    assert events[:-1] == [Delta("Hel"), Delta("lo")]
    end = finish(events)
    assert (end.finish_reason, end.usage, end.model) == ("stop", Usage(5, 2, 2), "tiny")
    assert end.cost_usd == pytest.approx((3 * 2.0 + 2 * 0.5 + 2 * 8.0) / 1e6)
    assert 0 < end.timings.ttft_s < 5
    assert end.timings.decode_tokens_per_s > 0
    sent = cloud.requests[0]
    assert sent.line == "POST /v1/chat/completions HTTP/1.1"
    assert (sent.body["model"], sent.body["max_tokens"], sent.body["stream"]) == ("tiny", 50, True)
    assert "authorization" not in sent.headers
    assert sent.headers["accept-encoding"] == "identity"


async def test_times_are_of_the_clock_that_was_given() -> None:
    time = Time()
    async with running_cloud(
        Answer((chunk("a"), 0.01, chunk("b"), chunk(finish_reason="stop"), DONE))
    ) as cloud:
        backend = backend_of(cloud, clock=time)
        async with aclosing(backend.stream(REQUEST)) as events:
            assert await anext(events) == Delta("a")
            time.now_s += 0.5
            assert await anext(events) == Delta("b")
            end = await anext(events)
        await backend.close()
    assert isinstance(end, Finished)
    assert (end.timings.ttft_s, end.timings.decode_tokens_per_s) == (0.0, 2.0)


async def test_a_price_that_is_not_known_is_none(cloud: Cloud) -> None:
    assert finish(await answer_of(backend_of(cloud))).cost_usd is None


async def test_the_clouds_temperature_replaces_the_requests(cloud: Cloud) -> None:
    await answer_of(backend_of(cloud, temperature=0.0), replace(REQUEST, sampling=Sampling(temperature=1.5)))
    await answer_of(backend_of(cloud), replace(REQUEST, sampling=Sampling(temperature=1.5)))
    assert [request.body["temperature"] for request in cloud.requests] == [0.0, 1.5]


async def test_a_connection_is_used_again(cloud: Cloud) -> None:
    backend = backend_of(cloud)
    for _ in range(3):
        assert [event async for event in backend.stream(REQUEST)]
    await backend.close()
    assert (len(cloud.requests), cloud.connections) == (3, 1)
    assert [event async for event in backend.stream(REQUEST)]  # after a close it connects again
    await backend.close()
    assert cloud.connections == 2


async def test_nothing_is_opened_and_no_key_is_read_before_the_first_request(cloud: Cloud) -> None:
    def ask() -> FoundKey:
        raise AssertionError("a key was asked for")

    await CloudBackend(target_of(cloud), ask).close()
    assert cloud.connections == 0


async def test_leaving_early_closes_the_connection() -> None:
    async with running_cloud(Answer((chunk("a"), 30.0))) as cloud:
        backend = backend_of(cloud)
        async with aclosing(backend.stream(REQUEST)) as events:
            assert await anext(events) == Delta("a")
        await asyncio.wait_for(until(lambda: cloud.disconnects == 1), 2)
        await backend.close()


@pytest.mark.parametrize("pause_s", [0.0, 30.0])
async def test_cancelling_the_reader_closes_the_connection(pause_s: float) -> None:
    async with running_cloud(Answer((chunk("a"), 30.0), pause_s=pause_s)) as cloud:
        backend = backend_of(cloud)
        reading = asyncio.ensure_future(answer_of(backend))
        await asyncio.wait_for(until(lambda: cloud.requests), 2)
        await asyncio.sleep(0.02)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        await asyncio.wait_for(until(lambda: cloud.disconnects == 1), 2)


async def until(holds: Any) -> None:
    while not holds():  # noqa: ASYNC110  # what the server sees it does not announce
        await asyncio.sleep(0.005)


async def test_many_at_once(cloud: Cloud) -> None:
    backend = backend_of(cloud)

    async def one() -> list[Event]:
        return [event async for event in backend.stream(REQUEST)]

    for events in await asyncio.gather(*(one() for _ in range(50))):
        assert [e.text for e in events if isinstance(e, Delta)] == ["Hel", "lo"]
    await backend.close()


# -- other forms of an answer


async def test_an_answer_that_is_not_streamed() -> None:
    body = {
        "model": "tiny-1",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 1},
    }
    async with running_cloud(Answer((json.dumps(body).encode(),), headers=JSON)) as cloud:
        events = await answer_of(backend_of(cloud))
    assert events[0] == Delta("Hello")
    assert (finish(events).usage, finish(events).model) == (Usage(5, 0, 1), "tiny-1")


async def test_tools_pass_through_and_calls_come_back() -> None:
    calls = [{"index": 0, "id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a"'}}]
    more = [{"index": 0, "function": {"arguments": ": 1}"}}]
    bodies = [{"choices": [{"delta": {"tool_calls": c}}]} for c in (calls, more)]
    bodies += [{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}]
    lines = [b"data: " + json.dumps(body).encode() + b"\r\n\r\n" for body in bodies]
    tools = Tools('[{"type": "function", "function": {"name": "add"}}]', '"auto"')
    async with running_cloud(Answer((*lines, DONE))) as cloud:
        events = await answer_of(backend_of(cloud), replace(REQUEST, tools=tools))
    assert events[:-1] == [ToolCall(0, "c1", "add", '{"a"'), ToolCall(0, arguments=": 1}")]
    assert finish(events).finish_reason == "tool_calls"
    assert cloud.requests[0].body["tool_choice"] == "auto"
    assert cloud.requests[0].body["tools"][0]["function"]["name"] == "add"


async def test_reasoning_is_told_from_the_answer() -> None:
    lines = [{"reasoning_content": "why"}, {"reasoning": " so"}, {"content": "so"}]
    pieces = [b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode() + b"\n\n" for delta in lines]
    async with running_cloud(Answer((*pieces, chunk(finish_reason="stop"), DONE))) as cloud:
        events = await answer_of(backend_of(cloud))
    assert events[:-1] == [Delta("why", "reasoning"), Delta(" so", "reasoning"), Delta("so")]


async def test_a_simulated_cloud_says_so() -> None:
    simulated = Simulated("H200", 3, 12, 0.25, "smollm2", 0)
    end = chunk(usage=Usage(5, 0, 1), simulated=simulated)
    async with running_cloud(Answer((chunk("a"), chunk(finish_reason="stop"), end, DONE))) as cloud:
        assert finish(await answer_of(backend_of(cloud))).simulated == simulated


@pytest.mark.parametrize("usage", [None, {"prompt_tokens": -1, "completion_tokens": 2}])
async def test_counts_that_are_not_told_are_estimated(usage: object) -> None:
    last = json.dumps({"choices": [], "usage": usage}).encode()
    body = (chunk("a"), chunk("b"), chunk(finish_reason="stop"), b"data: " + last + b"\n\n", DONE)
    async with running_cloud(Answer(body)) as cloud:
        end = finish(await answer_of(backend_of(cloud)))
    assert (end.usage.completion_tokens, end.usage_is_estimate) == (2, True)
    assert end.usage.prompt_tokens > 0


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (Usage(5, 0, 0), "0 tokens for 2 characters"),
        (Usage(5, 0, 999), "999 tokens of answer where 50 were allowed"),
        (Usage(90_000, 0, 2), "90,000 tokens for a prompt of"),
    ],
)
async def test_a_cloud_that_lies_about_usage_is_doubted_aloud(usage: Usage, words: str) -> None:
    body = (chunk("ab"), chunk(finish_reason="stop", usage=usage), DONE)
    async with running_cloud(Answer(body)) as cloud:
        events = await answer_of(backend_of(cloud))
    notice = events[-2]
    assert isinstance(notice, Notice)
    assert words in notice.text
    assert finish(events).usage == usage


async def test_hidden_reasoning_does_not_make_the_rate_faster() -> None:
    usage = {
        "prompt_tokens": 5,
        "completion_tokens": 103,
        "completion_tokens_details": {"reasoning_tokens": 100},
    }
    last = b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n"
    time = Time()
    body = (chunk("a"), 0.01, chunk("b"), 0.01, chunk("c"), chunk(finish_reason="stop"), last, DONE)
    async with running_cloud(Answer(body)) as cloud:
        backend = backend_of(cloud, clock=time)
        events = []
        async for event in backend.stream(replace(REQUEST, sampling=Sampling())):
            events.append(event)
            time.now_s += 0.1
        await backend.close()
    assert finish(events).timings.decode_tokens_per_s == pytest.approx(2 / 0.2)


# -- keys


async def test_the_key_goes_into_the_header(cloud: Cloud) -> None:
    await answer_of(backend_of(cloud, SECRET))
    assert cloud.requests[0].headers["authorization"] == f"Bearer {SECRET}"


async def test_the_key_is_asked_for_once(cloud: Cloud) -> None:
    asked = []

    def ask() -> FoundKey:
        asked.append(1)
        return FoundKey(ApiKey(SECRET), "a test")

    backend = CloudBackend(target_of(cloud), ask)
    for _ in range(2):
        assert [event async for event in backend.stream(REQUEST)]
    await backend.close()
    assert len(asked) == 1


async def test_a_key_that_cannot_be_one_ends_in_an_error(cloud: Cloud) -> None:
    def ask() -> FoundKey:
        raise CloudMisconfigured("No key.", "Set it.")

    with pytest.raises(CloudMisconfigured):
        await answer_of(CloudBackend(target_of(cloud), ask))
    assert cloud.connections == 0


FAULTS = {
    "refused": Answer((json.dumps({"error": {"message": f"Bad key {SECRET}"}}).encode(),), 401, JSON),
    "in the stream": Answer((b'data: {"error": {"code": 401, "message": "' + SECRET.encode() + b'"}}\n\n',)),
    "cut": Answer((chunk("a"),), cut=True),
    "silent": Answer(silent=True),
    "slow": Answer(pause_s=9),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_the_key_is_in_no_log_message_or_traceback(
    fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with running_cloud(FAULTS[fault]) as cloud:
        deadlines = Deadlines(2, 0.3, 0.3, 0.3)
        backend = backend_of(cloud, SECRET, deadlines=deadlines, sleep=Time().sleep, breaker=Breaker())
        with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever it is
            await answer_of(backend)
    assert cloud.requests[0].headers["authorization"].endswith(SECRET)
    assert SECRET not in caplog.text
    assert SECRET not in shown(caught.value)
    assert SECRET not in repr(backend.__dict__)


def shown(error: BaseException | None) -> str:
    """All that a traceback with local variables would show."""
    text = ""
    while error is not None:
        text += f"{error!r} {error}"
        step = error.__traceback__
        while step is not None:
            own = "/tests/" not in step.tb_frame.f_code.co_filename
            text += "".join(repr(value) for value in step.tb_frame.f_locals.values()) if own else ""
            step = step.tb_next
        error = error.__cause__ or error.__context__
    return text
