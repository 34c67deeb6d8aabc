"""The shipped fake does what it says, since everything else is tested with it."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from router.errors import BackendCrashed
from router.request import ChatRequest, Delta, Event, Failed, Finished, Message, Notice, Progress
from router.scripted import ScriptedBackend

REQUEST = ChatRequest((Message("system", "be brief"), Message("user", "one two three")))


async def play(backend: ScriptedBackend) -> list[Event]:
    return [event async for event in backend.stream(REQUEST)]


async def test_texts_are_deltas_events_are_sent_as_they_are_and_an_end_is_added() -> None:
    backend = ScriptedBackend(["a", Notice("n"), "b"])
    *events, last = await play(backend)
    assert events == [Delta("a"), Notice("n"), Delta("b")]
    assert isinstance(last, Finished)
    assert (last.finish_reason, last.model) == ("stop", "scripted")
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (5, 2)


@pytest.mark.parametrize("end", [Finished("length"), Failed(BackendCrashed("gone"))])
async def test_a_scripted_end_is_the_only_one(end: Event) -> None:
    assert await play(ScriptedBackend(["a", end])) == [Delta("a"), end]


async def test_an_error_is_raised_where_it_stands() -> None:
    backend = ScriptedBackend(["a", BackendCrashed("gone"), "b"])
    events = backend.stream(REQUEST)
    assert await anext(events) == Delta("a")
    with pytest.raises(BackendCrashed):
        await anext(events)
    assert backend.closed == 0


async def test_it_keeps_what_was_asked_and_plays_again() -> None:
    backend = ScriptedBackend(["a"])
    assert [(await play(backend))[0] for _ in range(2)] == [Delta("a")] * 2
    assert (backend.requests, backend.closed) == ([REQUEST, REQUEST], 0)


async def test_it_counts_streams_closed_before_their_end() -> None:
    backend = ScriptedBackend(["a", "b"])
    async with aclosing(backend.stream(REQUEST)) as events:
        await anext(events)
    assert backend.closed == 1
    async with aclosing(backend.stream(REQUEST)) as events:
        async for event in events:
            if isinstance(event, Finished):
                break
    assert backend.closed == 1


async def test_a_pace_is_kept() -> None:
    *_, last = await play(ScriptedBackend(["a"] * 5, tokens_per_s=100))
    assert isinstance(last, Finished)
    assert 0 < last.timings.decode_tokens_per_s <= 100


async def test_as_a_local_model_it_loads_counts_and_closes() -> None:
    backend = ScriptedBackend(window_tokens=64)
    assert not backend.info
    first = [event async for event in backend.load()]
    assert [type(event) for event in first] == [Progress, Progress]
    assert [event async for event in backend.load()] == []
    info = backend.info
    assert info
    assert (info.name, info.window_tokens) == ("scripted", 64)
    assert await backend.count_tokens(REQUEST.messages) == 5
    await backend.close()
    await backend.close()
    assert not backend.info
