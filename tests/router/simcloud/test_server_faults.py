"""Each fault that can be switched on ends, for our client, in one typed event that names the next step."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import httpx
import pytest

from router.cloud.target import Deadlines
from router.errors import (
    CloudBusy,
    CloudCutOff,
    CloudError,
    CloudFault,
    CloudMalformed,
    CloudModelUnknown,
    CloudRefused,
    CloudTimeout,
    InvalidRequest,
    InvalidSimulation,
    RouterError,
    TooLarge,
)
from router.request import Delta, Finished, Notice
from router.simcloud.faults import KINDS, MEANINGS, FaultSwitch, parse_fault
from tests.router.simcloud.live_cloud import HI, events_of, running

HASTE = Deadlines(connect_s=2, first_token_s=1.0, idle_s=0.5, total_s=1.5)
WHAT_COMES: dict[str, type[RouterError]] = {
    "400": InvalidRequest,
    "401": CloudRefused,
    "403": CloudRefused,
    "404": CloudModelUnknown,
    "408": CloudFault,
    "413": TooLarge,
    "429": CloudBusy,
    "500": CloudFault,
    "502": CloudFault,
    "503": CloudFault,
    "latency": CloudTimeout,
    "silence": CloudTimeout,
    "cut": CloudCutOff,
    "stall": CloudTimeout,
    "malformed": CloudMalformed,
    "oversized": CloudMalformed,
    "html": CloudMalformed,
    "redirect": CloudError,
}


async def test_each_fault_ends_in_its_error() -> None:
    async with running() as here:
        for kind, expected in WHAT_COMES.items():
            here.cloud.faults.fault = parse_fault(kind)
            events, error = await events_of(here.client(deadlines=HASTE))
            assert type(error) is expected, kind
            assert error.next_step
            assert not any(isinstance(event, Finished) for event in events)
            await here.empty()


def test_every_fault_is_tried_and_explained() -> None:
    assert {*WHAT_COMES, "lies", "endless"} == set(KINDS)
    named = {name.partition(":")[0] for name in MEANINGS} | {"400", "401", "403", "404", "408"}
    assert {kind for kind in KINDS if not kind.isdecimal()} <= named


async def test_an_endless_answer_is_ended_at_its_limit() -> None:
    async with running(fault="endless") as here:
        events, error = await events_of(here.client())
        await here.empty()
    assert error is None
    assert isinstance(events[-1], Finished)
    assert events[-1].finish_reason == "length"


@pytest.mark.parametrize("kind", ["cut:5", "stall:5", "malformed:5"])
async def test_what_came_before_the_fault_stays(kind: str) -> None:
    async with running(fault=kind) as here:
        events, error = await events_of(here.client(deadlines=HASTE))
        assert isinstance(error, CloudError)
        assert len([event for event in events if isinstance(event, Delta)]) == 5


async def test_a_cloud_that_lies_about_usage_is_doubted() -> None:
    async with running(fault="lies") as here:
        events, error = await events_of(here.client())
    assert error is None
    assert [event for event in events if isinstance(event, Notice) and "doubtful" in event.text]


async def test_a_fault_that_passes_is_tried_again() -> None:
    async with running(fault="503*1") as here:
        events, error = await events_of(here.client())
        assert error is None
        assert isinstance(events[0], Notice)
        assert isinstance(events[-1], Finished)
        assert str(here.cloud.faults.fault or "none") == "none"


async def test_one_request_can_ask_for_a_fault_of_its_own() -> None:
    async with running() as here, httpx.AsyncClient(timeout=60) as client:
        body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 1}
        for fault, status in (("429:7", 429), ("", 200), ("none", 200), ("what", 400)):
            headers = {"x-localchat-fault": fault}
            answer = await client.post(here.url + "/chat/completions", json=body, headers=headers)
            assert answer.status_code == status
            if status == 429:
                assert answer.headers["retry-after"] == "7"


@pytest.mark.parametrize("kind", ["cut", "malformed"])
async def test_an_answer_that_is_not_streamed_is_spoilt_too(kind: str) -> None:
    async with running(fault=kind) as here, httpx.AsyncClient(timeout=60) as client:
        asking = client.post(
            here.url + "/chat/completions", json={"messages": [{"role": "user", "content": "a"}]}
        )
        if kind == "cut":
            with pytest.raises(httpx.RemoteProtocolError):
                await asking
        else:
            with pytest.raises(ValueError, match="line 1"):
                (await asking).json()


async def test_leaving_a_stalled_answer_frees_it() -> None:
    async with running(fault="stall:2") as here:
        client = here.client()
        async with aclosing(client.stream(HI)) as events:
            assert isinstance(await anext(events), Delta)
        await client.close()
        await here.empty()


async def test_a_server_that_is_stopped_cuts_answers_in_progress() -> None:
    async with running(fault="stall:2") as here:
        asking = asyncio.create_task(events_of(here.client()))
        await asyncio.sleep(0.2)
    _, error = await asking
    assert isinstance(error, CloudCutOff)


@pytest.mark.parametrize("text", ["500", "429:2", "cut:5", "latency:0.5", "503*3", "429:1*2"])
def test_a_fault_is_shown_as_it_is_written(text: str) -> None:
    assert str(parse_fault(text)).removesuffix("*1") == (text if text != "429" else "429:1")


@pytest.mark.parametrize("text", ["earthquake", "500;", "cut:-1", "cut:99999", "*2", ":", "5 00", "cut:1:2"])
def test_a_fault_that_there_is_not_is_named(text: str) -> None:
    with pytest.raises(InvalidSimulation, match="is no fault"):
        parse_fault(text)


def test_a_fault_with_a_number_of_times_switches_itself_off() -> None:
    switch = FaultSwitch(parse_fault("500*2"))
    assert [switch.next() is not None for _ in range(4)] == [True, True, False, False]
