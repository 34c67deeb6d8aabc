"""OpenAI's own Python SDK against the simulated cloud."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai
import pytest
from openai.types.chat import ChatCompletionUserMessageParam

from router.simcloud.door import Door
from router.simcloud.faults import parse_fault
from tests.router.simcloud.live_cloud import KEY, MODEL, Author, Running, running

HELLO: list[ChatCompletionUserMessageParam] = [{"role": "user", "content": "Hello"}]


@asynccontextmanager
async def sdk(here: Running, key: str = KEY, retries: int = 0) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=here.url, api_key=key, max_retries=retries, timeout=10) as client:
        yield client


async def test_an_answer_and_its_usage() -> None:
    async with running(door=Door((KEY,))) as here, sdk(here) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=HELLO, max_completion_tokens=4)
        assert answer.choices[0].message.content == "This answer is scripted:"
        assert answer.choices[0].finish_reason == "length"
        assert answer.usage
        assert answer.usage.completion_tokens == 4
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + 4
        assert (answer.usage.model_extra or {})["simulated"]["label"] == "SIMULATED"
        assert [model.id async for model in client.models.list()] == [MODEL]
        older = await client.completions.create(model=MODEL, prompt="Once", max_tokens=2)
        assert older.choices[0].text == "This answer"


async def test_a_stream() -> None:
    async with running() as here, sdk(here) as client:
        stream = await client.chat.completions.create(
            model=MODEL, messages=HELLO, max_tokens=6, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "This answer is scripted: it was"
    assert chunks[-2].choices[0].finish_reason == "length"
    assert chunks[-1].usage
    assert chunks[-1].usage.completion_tokens == 6


ERRORS: list[tuple[str, type[openai.APIStatusError]]] = [
    ("400", openai.BadRequestError),
    ("401", openai.AuthenticationError),
    ("403", openai.PermissionDeniedError),
    ("404", openai.NotFoundError),
    ("408", openai.APIStatusError),
    ("413", openai.APIStatusError),
    ("429", openai.RateLimitError),
    ("500", openai.InternalServerError),
    ("503", openai.InternalServerError),
]


async def test_errors_are_those_of_the_sdk() -> None:
    async with running() as here, sdk(here) as client:
        for fault, error in ERRORS:
            here.cloud.faults.fault = parse_fault(fault)
            with pytest.raises(error) as raised:
                await client.chat.completions.create(model=MODEL, messages=HELLO)
            assert raised.value.status_code == int(fault)
            assert raised.value.body


async def test_refusals_carry_code_and_field() -> None:
    async with running(door=Door((KEY,))) as here:
        async with sdk(here, key="wrong") as client:
            with pytest.raises(openai.AuthenticationError) as refused:
                await client.models.list()
            assert refused.value.code == "invalid_api_key"
        async with sdk(here) as client:
            with pytest.raises(openai.NotFoundError) as unknown:
                await client.chat.completions.create(model="gpt-5", messages=HELLO)
            assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
            with pytest.raises(openai.BadRequestError) as long:
                await client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=10**6)
            assert long.value.code == "context_length_exceeded"


async def test_the_sdk_tries_again_and_gets_its_answer() -> None:
    async with running(fault="429:0.01*2") as here, sdk(here, retries=2) as client:
        answer = await client.chat.completions.create(model=MODEL, messages=HELLO, max_tokens=2)
        assert answer.choices[0].message.content == "This answer"
        assert here.cloud.faults.fault is None


async def test_a_stream_that_is_cut_raises_in_the_middle() -> None:
    async with running(fault="cut:2") as here, sdk(here) as client:
        stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        seen = []
        with pytest.raises(openai.APIConnectionError):
            async for chunk in stream:
                seen.append(chunk)  # noqa: PERF401  # those before the error are wanted
    assert len(seen) == 3


async def test_closing_a_stream_stops_it() -> None:
    author = Author()
    async with running(author) as here, sdk(here) as client:
        stream = await client.chat.completions.create(model=MODEL, messages=HELLO, stream=True)
        async for _ in stream:
            break
        await stream.close()
        await here.empty()
        assert author.stopped == 1


async def test_many_at_once() -> None:
    """The benchmark asks 200; that many take their time here."""
    async with running(load=20) as here, sdk(here) as client:

        async def ask(tokens: int) -> int:
            stream = await client.chat.completions.create(
                model=MODEL, messages=HELLO, max_tokens=tokens, stream=True
            )
            return sum([1 async for chunk in stream if chunk.choices and chunk.choices[0].delta.content])

        wanted = [1 + number % 9 for number in range(40)]
        assert await asyncio.gather(*map(ask, wanted)) == wanted
