"""The default model in its child process: answered, stopped, shared, closed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localchat.engines.process import EngineModel, _Child
from router.errors import BackendCrashed, ContextOverflow, InvalidRequest
from router.request import (
    ChatRequest,
    Delta,
    Finished,
    Message,
    Notice,
    Progress,
    ResponseFormat,
    Sampling,
)
from tests.localchat.engines.talk import (
    CAPITAL,
    GREEDY,
    LONG,
    STORY,
    SUM,
    answer,
    ask,
    engine,
    events_of,
    load,
    text_of,
    until,
)

pytestmark = pytest.mark.real_model


@pytest.fixture
async def model(default_model: Path) -> AsyncIterator[EngineModel]:
    model = engine(default_model)
    yield model
    await model.close()


async def says_what_it_should(model: EngineModel) -> Finished:
    """Whatever came before, the answer is that of a fresh model."""
    said, end = await answer(model, ask(SUM))
    assert said == "The answer to this classic math problem is 4."
    return end


# -- an answer


async def test_an_answer_with_its_figures(model: EngineModel) -> None:
    assert (model.info, model.pid) == (None, None)
    events = await events_of(model, ask(SUM))
    end = events[-1]
    assert isinstance(end, Finished)
    assert text_of(events) == "The answer to this classic math problem is 4."
    assert (end.finish_reason, end.model) == ("stop", "some-model")
    scores = [score for event in events if isinstance(event, Delta) for score in event.scores]
    assert len(scores) == end.usage.completion_tokens > 0
    timings = end.timings
    assert 0 < timings.load_s < timings.ttft_s
    assert timings.prefill_tokens_per_s > 0 < timings.decode_tokens_per_s
    info = model.info
    assert info is not None
    assert (info.name, info.engine, info.decode_threads, info.prefill_threads) == (
        "some-model",
        "llama_cpp",
        1,
        1,
    )
    assert info.window_tokens == info.trained_tokens == 8192


async def test_a_second_turn_reuses_the_first(model: EngineModel) -> None:
    said, first = await answer(model, ask(SUM))
    talk = (Message("user", SUM), Message("assistant", said), Message("user", "Who are you?"))
    _, second = await answer(model, ChatRequest(talk, GREEDY))
    known = first.usage.prompt_tokens + first.usage.completion_tokens
    assert second.usage.cached_tokens == known
    assert second.timings.load_s == 0.0


async def test_loading_ahead_reports_progress_once(model: EngineModel) -> None:
    events = await load(model)
    assert events
    assert all(isinstance(event, Progress) and event.stage in ("load", "measure") for event in events)
    assert model.info is not None
    assert await load(model) == []
    _, end = await answer(model, ask(SUM))
    assert end.timings.load_s == 0.0


async def test_tokens_are_counted_as_the_prompt_is(model: EngineModel) -> None:
    request = ask(CAPITAL + " <|im_end|> é🙂\0 \ud800")
    count = await model.count_tokens(request.messages)
    _, end = await answer(model, request)
    assert count == end.usage.prompt_tokens
    assert await model.count_tokens(()) > 0


async def test_the_same_seed_says_the_same(model: EngineModel) -> None:
    sampling = Sampling(temperature=1.5, top_p=1.0, seed=7, max_tokens=20)
    other = replace(sampling, seed=8)
    first, again, different = [
        (await answer(model, ask(STORY, each)))[0] for each in (sampling, sampling, other)
    ]
    assert first == again != different


async def test_an_answer_follows_a_schema(model: EngineModel) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "large": {"type": "boolean"}},
        "required": ["city", "large"],
        "additionalProperties": False,
    }
    wanted = ResponseFormat("json_schema", json.dumps(schema))
    said, end = await answer(
        model, ChatRequest((Message("user", CAPITAL),), Sampling(max_tokens=80, seed=1), wanted)
    )
    assert end.finish_reason == "stop"
    told = json.loads(said)
    assert set(told) == {"city", "large"}
    assert isinstance(told["large"], bool)


async def test_a_bad_constraint_is_refused_and_the_model_stays(model: EngineModel) -> None:
    await load(model)
    pid = model.pid
    for wanted in (
        ResponseFormat("regex", "("),
        ResponseFormat("regex", r"[^\x00-\U0010FFFF]"),
        ResponseFormat("json_schema", "{"),
        ResponseFormat("gbnf", "root ::= nosuch"),
        ResponseFormat("lark", "start: nosuch"),
    ):
        with pytest.raises(InvalidRequest, match="cannot be used"):
            await events_of(model, ChatRequest((Message("user", SUM),), GREEDY, wanted))
    await says_what_it_should(model)
    assert model.pid == pid


async def test_five_megabytes_are_refused_with_exact_counts(model: EngineModel) -> None:
    request = ask("hello world " * 420_000)
    with pytest.raises(ContextOverflow) as caught:
        await events_of(model, request)
    assert caught.value.window_tokens == 8192
    assert caught.value.prompt_tokens == await model.count_tokens(request.messages) > 800_000
    await says_what_it_should(model)


async def test_a_small_window_is_kept_to(default_model: Path) -> None:
    model = engine(default_model, ctx=64)
    _, end = await answer(model, ask(STORY, max_tokens=500))
    assert end.finish_reason == "context"
    assert end.usage.prompt_tokens + end.usage.completion_tokens == 64
    with pytest.raises(ContextOverflow):
        await events_of(model, ask(STORY * 5))
    await model.close()


# -- stopping


@pytest.mark.parametrize(
    ("kind", "request_"), [(Progress, ask(LONG)), (Delta, ask(STORY, max_tokens=400))], ids=str
)
async def test_closing_the_stream_stops_and_the_next_answer_is_right(
    model: EngineModel, kind: type, request_: ChatRequest
) -> None:
    await load(model)
    pid = model.pid
    async with aclosing(model.stream(request_)) as events:
        await until(events, kind, 2)
    await says_what_it_should(model)
    assert model.pid == pid


async def test_a_task_cancelled_at_any_time_leaves_a_model_that_answers(model: EngineModel) -> None:
    await load(model)
    pid = model.pid
    for delay_s in (0.0, 0.001, 0.02, 0.1, 0.3):
        task = asyncio.create_task(events_of(model, ask(STORY, max_tokens=400)))
        await asyncio.sleep(delay_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await says_what_it_should(model)
    assert model.pid == pid


async def test_cancelling_again_and_again_changes_nothing(model: EngineModel) -> None:
    """A person presses the key twice: the second press must not cut the stopping short."""
    await load(model)
    for times in (2, 3, 5):
        task = asyncio.create_task(events_of(model, ask(LONG)))
        await asyncio.sleep(0.2)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        await says_what_it_should(model)


async def test_a_request_cancelled_while_it_is_sent_is_not_answered(
    model: EngineModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    await load(model)
    heard: list[dict[str, Any]] = []
    receive = _Child.receive

    async def overhear(child: _Child) -> dict[str, Any] | None:
        message = await receive(child)
        heard.append(message or {})
        return message

    monkeypatch.setattr(_Child, "receive", overhear)
    assert model.pid is not None
    os.kill(model.pid, signal.SIGSTOP)  # reads nothing: the sending waits
    task = asyncio.create_task(events_of(model, ask(" " * 300_000, max_tokens=2)))
    await asyncio.sleep(0.1)
    task.cancel()
    await asyncio.sleep(0.1)
    os.kill(model.pid, signal.SIGCONT)
    with pytest.raises(asyncio.CancelledError):
        await task
    await says_what_it_should(model)
    cancelled = [message for message in heard if message.get("id") == 1]
    assert not [message for message in cancelled if "text" in message.get("event", {})]


async def test_a_child_that_does_not_stop_is_replaced(model: EngineModel) -> None:
    await load(model)
    pid = model.pid
    assert pid is not None
    async with aclosing(model.stream(ask(STORY, max_tokens=400))) as events:
        await until(events, Delta)
        os.kill(pid, signal.SIGSTOP)
    assert model.pid is None
    heard = await events_of(model, ask(SUM))
    assert [event for event in heard if isinstance(event, Notice)]
    assert model.pid != pid


async def test_loading_that_is_stopped_can_be_done_again(model: EngineModel) -> None:
    stream = model.load()
    await anext(stream)
    await stream.aclose()
    assert model.info is None
    await says_what_it_should(model)


# -- sharing and closing


async def test_two_streams_are_served_one_after_the_other(model: EngineModel) -> None:
    both = await asyncio.gather(*(answer(model, ask(question)) for question in (CAPITAL, STORY, CAPITAL)))
    assert both[0][0] == both[2][0] != both[1][0]
    assert all(end.usage.completion_tokens for _, end in both)


async def test_a_stream_cancelled_while_it_waits_does_not_disturb_the_one_it_waits_for(
    model: EngineModel,
) -> None:
    first = asyncio.create_task(answer(model, ask(STORY)))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(answer(model, ask(CAPITAL)))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (await first)[1].usage.completion_tokens == 12


async def test_closing_is_idempotent_and_a_later_request_loads_again(model: EngineModel) -> None:
    await model.close()
    await says_what_it_should(model)
    pid = model.pid
    for _ in range(3):
        await model.close()
    assert (model.pid, model.info) == (None, None)
    events = await events_of(model, ask(SUM))
    assert text_of(events) == "The answer to this classic math problem is 4."
    assert not [event for event in events if isinstance(event, Notice)]
    assert model.pid not in (None, pid)


async def test_a_model_closed_under_an_answer_answers_again(model: EngineModel) -> None:
    stream = model.stream(ask(STORY, max_tokens=400))
    await until(stream, Delta)
    await model.close()
    with pytest.raises(BackendCrashed, match="closed"):
        async for _ in stream:
            pass
    await says_what_it_should(model)
