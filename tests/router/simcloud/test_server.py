"""The simulated cloud over HTTP: what clients send is understood, and what is wrong is refused at once."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import httpx
import pytest

from router.cloud.sse import Decoder
from router.errors import ContextOverflow, InvalidRequest
from router.request import ChatRequest, Delta, Finished, Message, Sampling, Tools, Usage
from router.simcloud.deployment import Deployment
from router.simcloud.door import Door
from router.simcloud.text_source import ScriptedText
from tests.router.simcloud.live_cloud import HI, KEY, MODEL, Author, Running, events_of, eventually, running

SLOW = Deployment(model="llama-3-8b", gpu="l4", options={"max_sequences": 4})
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
async def here() -> AsyncIterator[Running]:
    async with running() as cloud:
        yield cloud


async def post(here: Running, path: str = "/chat/completions", **fields: Any) -> httpx.Response:
    headers = fields.pop("headers", {})
    async with httpx.AsyncClient(timeout=60) as client:
        return await client.post(here.url + path, json={"messages": HELLO, **fields}, headers=headers)


def chunks(response: httpx.Response) -> list[dict[str, Any]]:
    events = [event.data for event in Decoder().feed(response.content)]
    assert events.pop() == "[DONE]"
    return [json.loads(event) for event in events]


# -- answers


async def test_a_stream_has_the_form_that_clients_expect(here: Running) -> None:
    response = await post(
        here, stream=True, max_tokens=5, stream_options={"include_usage": True}, x_unknown=1
    )
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    first, *middle, last, counts = chunks(response)
    for name in ("id", "created", "model", "object"):
        assert len({chunk[name] for chunk in (first, *middle, last, counts)}) == 1
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["choices"][0]["finish_reason"] for chunk in (first, *middle, last)] == [None] * 6 + [
        "length"
    ]
    assert (
        "".join(chunk["choices"][0]["delta"]["content"] for chunk in middle) == "This answer is scripted: it"
    )
    assert (len(middle), counts["choices"]) == (5, [])
    assert counts["usage"]["completion_tokens"] == 5
    assert all("usage" not in chunk for chunk in (first, *middle, last))


async def test_every_response_says_that_it_is_simulated(here: Running) -> None:
    for fields in ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}, {}):
        for path, asked in (("/chat/completions", {}), ("/completions", {"prompt": "Once"})):
            response = await post(here, path, max_tokens=2, **fields, **asked)
            assert response.headers["x-localchat-simulated"].startswith('SIMULATED; gpu="B200')
            last = chunks(response)[-1] if fields else response.json()
            simulated = last["usage"]["simulated"] if "usage" in last else last["simulated"]
            assert simulated["label"] == "SIMULATED"
            assert simulated["gpu"].startswith("B200")
            assert simulated["text_model"] == "scripted text"
            assert simulated["batch_size"] >= 1


async def test_the_older_form_goes_on_with_a_text() -> None:
    author = Author(words=(" upon", " a", " time"))
    author.gate.set()
    async with running(author) as here:
        whole = (await post(here, "/completions", prompt="Once", max_tokens=9)).json()
        assert (whole["object"], whole["choices"][0]["text"]) == ("text_completion", " upon a time")
        assert whole["choices"][0]["finish_reason"] == "stop"
        streamed = chunks(await post(here, "/completions", prompt=["Once"], stream=True))
        assert "".join(chunk["choices"][0]["text"] for chunk in streamed) == " upon a time"
    assert author.requests[0].messages == (Message("assistant", "Once"),)
    assert author.requests[0].sampling.max_tokens == 9


async def test_our_own_client_reads_it(here: Running) -> None:
    events, error = await events_of(here.client())
    *deltas, finished = events
    assert error is None
    assert all(isinstance(event, Delta) for event in deltas)
    assert isinstance(finished, Finished)
    assert (finished.finish_reason, finished.model, finished.usage.completion_tokens) == ("length", MODEL, 12)
    assert finished.usage_is_estimate
    assert finished.simulated
    assert (finished.simulated.gpu, finished.simulated.text_model) == (here.server.gpu, "scripted text")


async def test_counts_of_a_source_that_counts_are_no_estimate() -> None:
    author = Author()
    author.gate.set()
    async with running(author) as here:
        events, _ = await events_of(here.client())
        finished = events[-1]
        assert isinstance(finished, Finished)
        assert (finished.usage, finished.usage_is_estimate) == (Usage(100, 0, 2), False)


async def test_a_prompt_that_was_seen_before_is_found_in_the_cache() -> None:
    author = Author()
    author.gate.set()
    long = ChatRequest((Message("user", "Tell me of " + "many things and " * 60),), Sampling(max_tokens=4))
    async with running(author) as here:
        found = []
        for _ in range(2):
            events, _ = await events_of(here.client(), long)
            finished = events[-1]
            assert isinstance(finished, Finished)
            found.append(finished.usage.cached_tokens)
    assert found == [0, 96]  # whole blocks of 16; the last token is always computed


# -- what is refused, before an answer begins


WRONG: list[tuple[dict[str, Any], int, str, str]] = [
    ({"model": "gpt-5"}, 404, "model_not_found", "model"),
    ({"messages": []}, 400, "invalid_value", "messages"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        400,
        "invalid_value",
        "messages",
    ),
    ({"n": 2}, 400, "invalid_value", "n"),
    ({"logprobs": True}, 400, "invalid_value", "logprobs"),
    ({"top_logprobs": 3}, 400, "invalid_value", "top_logprobs"),
    ({"temperature": "hot"}, 400, "invalid_value", "temperature"),
    ({"max_tokens": 0}, 400, "invalid_value", "max_tokens"),
    ({"tools": [{"type": "function"}]}, 400, "invalid_value", "tools"),
    ({"response_format": {"type": "json_object"}}, 400, "invalid_value", "response_format"),
    ({"max_tokens": 200_000}, 400, "context_length_exceeded", "messages"),
]


async def test_a_wrong_request_is_refused_with_the_field(here: Running) -> None:
    for (fields, *wanted), stream in product(WRONG, (False, True)):
        response = await post(here, **{"stream": stream, **fields})
        error = response.json()["error"]
        assert [response.status_code, error["code"], error["param"]] == wanted, fields
        assert error["message"]
        assert error["type"] == "invalid_request_error"
    assert not here.server.live


WRONG_TEXT: list[tuple[dict[str, Any], str]] = [
    ({}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"prompt": [1, 2, 3]}, "prompt"),
    ({"prompt": ["a", "b"]}, "prompt"),
    ({"prompt": "a", "echo": True}, "echo"),
    ({"prompt": "a", "suffix": "b"}, "suffix"),
    ({"prompt": "a", "best_of": 2}, "best_of"),
    ({"prompt": "a", "logprobs": 1}, "logprobs"),
]


async def test_so_is_one_of_the_older_form(here: Running) -> None:
    for fields, param in WRONG_TEXT:
        response = await post(here, "/completions", **fields)
        assert (response.status_code, response.json()["error"]["param"]) == (400, param), fields


async def test_a_body_that_is_no_request_is_refused(here: Running) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        for body in (b"", b"{", b"[]", b'"text"', b"[" * 100_000, b"\xff\xfe"):
            response = await client.post(here.url + "/chat/completions", content=body)
            assert (response.status_code, response.json()["error"]["type"]) == (400, "invalid_request_error")


async def test_a_body_that_is_too_large_is_not_read_to_its_end(here: Running) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        response = await client.post(here.url + "/chat/completions", content=b"x" * (5 << 20))
    assert (response.status_code, response.json()["error"]["code"]) == (413, "request_too_large")


async def test_what_the_source_does_not_accept_is_no_answer() -> None:
    author = Author(words=(), error=InvalidRequest("The grammar is odd.", "Mend it."))
    author.gate.set()
    async with running(author) as here:
        response = await post(here, stream=True)
        assert (response.status_code, "grammar" in response.text) == (400, True)
        await here.empty()


async def test_a_conversation_that_is_too_long_comes_back_with_its_counts(here: Running) -> None:
    long = ChatRequest((Message("user", "word " * 200_000),), Sampling(max_tokens=10))
    _, error = await events_of(here.client(), long)
    assert isinstance(error, ContextOverflow)
    assert error.window_tokens == here.cloud.model.window_tokens == 131_072
    assert error.prompt_tokens > 131_072


async def test_tools_are_refused_to_our_client_too(here: Running) -> None:
    _, error = await events_of(here.client(), ChatRequest(HI.messages, tools=Tools('[{"type": "function"}]')))
    assert isinstance(error, InvalidRequest)


async def test_unknown_paths_and_methods_get_an_error_object(here: Running) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        unknown = await client.get(here.url + "/embeddings")
        method = await client.get(here.url + "/chat/completions")
    assert (unknown.status_code, method.status_code) == (404, 405)
    assert "/v1/models" in unknown.json()["error"]["message"]
    assert method.json()["error"]["type"] == "invalid_request_error"


# -- who may come in


async def test_a_key_is_needed_where_one_is_set() -> None:
    async with running(door=Door((KEY, "other"))) as here:
        for headers, status in (
            ({}, 401),
            ({"authorization": "Bearer wrong"}, 401),
            ({"authorization": KEY}, 401),
            ({"authorization": f"Bearer {KEY}"}, 200),
            ({"authorization": "bearer other"}, 200),
        ):
            response = await post(here, max_tokens=1, headers=headers)
            assert response.status_code == status
            if status == 401:
                assert response.json()["error"]["code"] == "invalid_api_key"
        async with httpx.AsyncClient(timeout=60) as client:
            open_ones = [(await client.get(here.root + path)).status_code for path in ("/health", "/metrics")]
            closed = [
                (await client.get(here.root + path)).status_code for path in ("/v1/models", "/simulation")
            ]
        assert (open_ones, closed) == ([200, 200], [401, 401])


async def test_a_rate_limit_says_when_to_come_again() -> None:
    async with running(door=Door(per_minute=2)) as here:
        answers = [await post(here, max_tokens=1) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]
        assert answers[2].json()["error"]["code"] == "rate_limit_exceeded"
        assert 0 < float(answers[2].headers["retry-after"]) <= 30


async def test_web_pages_from_elsewhere_may_not_use_it(here: Running) -> None:
    assert (await post(here, headers={"origin": "https://example.com"})).status_code == 403
    assert (await post(here, max_tokens=1, headers={"origin": "http://localhost:3000"})).status_code == 200


# -- time


async def test_no_token_comes_before_its_time() -> None:
    async with running(ScriptedText(), load=20) as here, httpx.AsyncClient(timeout=60) as client:
        body = {"messages": HELLO, "stream": True, "stream_options": {"include_simulated_time": True}}
        due_s: list[float] = []
        async with client.stream("POST", here.url + "/chat/completions", json=body) as response:
            decoder = Decoder()
            async for piece in response.aiter_raw():
                now_s = time.time()
                for event in decoder.feed(piece):
                    if "simulated_time_s" in event.data:
                        due_s.append(json.loads(event.data)["simulated_time_s"])
                        assert now_s > due_s[-1] - 0.0015
        assert due_s == sorted(due_s)
        assert len(set(due_s)) == len(due_s) > 50


async def test_text_that_is_later_than_its_time_is_counted_and_said() -> None:
    author = Author(words=("one",), then=(" two", " three"))
    async with running(author) as here:
        asking = asyncio.create_task(events_of(here.client()))
        await eventually(lambda: author.requests)
        await asyncio.sleep(0.1)
        author.gate.set()
        events, _ = await asking
        finished = events[-1]
        assert isinstance(finished, Finished)
        assert finished.simulated
        assert (finished.usage.completion_tokens, finished.simulated.late_tokens) == (3, 2)
        assert here.server.metrics.late_tokens == 2
        await here.empty()


# -- leaving


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_its_blocks_and_stops_the_text(stream: bool) -> None:
    author = Author()
    async with running(author) as here:
        with pytest.raises(httpx.ReadTimeout):
            async with httpx.AsyncClient(timeout=0.2) as client:
                await client.post(here.url + "/chat/completions", json={"messages": HELLO, "stream": stream})
        await here.empty()
        assert author.stopped == 1
        assert here.server.metrics.ended["abort"] == 1


async def test_many_leave_at_any_time_and_nothing_is_left() -> None:
    async with running(load=50) as here:

        async def leaves(after: int) -> None:
            client, seen = here.client(), 0
            async for _ in client.stream(HI):
                seen += 1
                if seen > after:
                    break
            await client.close()

        await asyncio.gather(*(leaves(after % 14) for after in range(40)))
        here.server.welcome(type(here.server.users)(0.0))
        await here.empty()


# -- what there is, and what it does


async def test_models_are_listed_with_who_writes(here: Running) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        listed = (await client.get(here.url + "/models")).json()
        one = (await client.get(f"{here.url}/models/{MODEL}")).json()
        none = await client.get(f"{here.url}/models/gpt-5")
    assert listed == {"object": "list", "data": [one]}
    assert (one["id"], one["max_model_len"]) == (MODEL, 131_072)
    assert one["simulated"]["text_model"] == "scripted text"
    assert (none.status_code, none.json()["error"]["code"]) == (404, "model_not_found")


async def metrics(here: Running) -> dict[str, float]:
    async with httpx.AsyncClient(timeout=60) as client:
        lines = (await client.get(here.root + "/metrics")).text.splitlines()
    shown = [line.rpartition(" ") for line in lines if not line.startswith("#")]
    return {name.partition("{")[0]: float(value) for name, _, value in shown}


async def test_metrics_move_as_load_is_turned_up(here: Running) -> None:
    before = await metrics(here)
    assert before["vllm:num_requests_running"] == 0
    async with httpx.AsyncClient(timeout=60) as client:
        changed = await client.patch(here.root + "/simulation", json={"load": 200, "seed": 3})
        assert changed.json()["load"] == 200
        await asyncio.sleep(0.5)
        state = (await client.get(here.root + "/simulation")).json()
    after = await metrics(here)
    assert after["vllm:num_requests_running"] > 5
    assert after["vllm:generation_tokens_total"] > before["vllm:generation_tokens_total"] + 100
    assert after["vllm:time_to_first_token_seconds_count"] > 0
    assert after["vllm:kv_cache_usage_perc"] > 0
    assert state["running"] > 5


async def test_those_who_are_served_move_when_the_gpu_changes() -> None:
    author = Author(words=[f" {number}" for number in range(200)])
    author.gate.set()
    async with running(author) as here, httpx.AsyncClient(timeout=60) as client:
        request = ChatRequest(HI.messages, Sampling(max_tokens=300))
        asking = asyncio.create_task(events_of(here.client(), request))
        await eventually(lambda: here.server.running)
        await asyncio.sleep(0.03)
        changed = await client.patch(here.root + "/simulation", json={"gpu": "h200", "policy": "sarathi"})
        assert (changed.json()["gpu"], changed.json()["policy"]) == ("H200", "sarathi")
        events, error = await asking
    assert error is None
    assert "".join(event.text for event in events if isinstance(event, Delta)) == "".join(author.words)
    finished = events[-1]
    assert isinstance(finished, Finished)
    assert finished.usage.completion_tokens == 200


UNWANTED: list[dict[str, Any]] = [
    {"gpu": "abacus"},
    {"policy": "anarchy"},
    {"load": -1},
    {"load": "much"},
    {"seed": True},
    {"fault": "earthquake"},
    {"colour": "red"},
    {"load": 5, "gpu": "abacus"},
]


async def test_a_change_that_cannot_be_made_changes_nothing(here: Running) -> None:
    async with httpx.AsyncClient(timeout=60) as client:
        before = (await client.get(here.root + "/simulation")).json()
        for wanted in UNWANTED:
            refused = await client.patch(here.root + "/simulation", json=wanted)
            assert (refused.status_code, refused.json()["error"]["type"]) == (400, "invalid_request_error"), (
                wanted
            )
        assert (await client.get(here.root + "/simulation")).json() == before


async def test_a_full_queue_turns_users_away() -> None:
    async with running(load=0, deployment=SLOW) as here:
        for _ in range(600):
            here.server.users.next_s = 0.0
            here.server.keep_up()
        assert here.server.waiting <= 512
        assert here.server.metrics.turned_away > 0
        response = await post(here, max_tokens=1)
        assert (response.status_code, response.headers["retry-after"]) == (429, "1")
