"""The path of a request: Routed first, one end, and nothing swallowed but a RouterError."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.decision import Decision
from router.dispatch import Dispatch
from router.errors import BackendCrashed, ContextOverflow, RouterError
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Failed,
    Finished,
    Message,
    Notice,
    Progress,
    Reclassified,
    ResponseFormat,
    Routed,
)
from router.scripted import ScriptedBackend

REQUEST = ChatRequest((Message("user", "hi"),))
STEPS: st.SearchStrategy[str | Event | RouterError] = st.sampled_from(
    ["a", "<think>", "</think>", "<", Notice("n"), Progress("prefill", 1, 2, "tokens")]
)


class Backend:
    """Runs a script the shipped fake would not play."""

    model = "odd"

    def __init__(self, *script: Event | Exception) -> None:
        self._script = script

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        for step in self._script:
            if isinstance(step, Exception):
                raise step
            yield step


async def play(backend: ScriptedBackend | Backend, request: ChatRequest = REQUEST) -> list[Event]:
    return [event async for event in Dispatch(backend).stream(request)]


@given(st.lists(STEPS, max_size=6), st.sampled_from([None, BackendCrashed("gone"), ContextOverflow(9, 8)]))
async def test_routed_is_first_and_one_end_is_last(
    script: Sequence[str | Event | RouterError], error: RouterError | None
) -> None:
    events = await play(ScriptedBackend([*script, *([error] if error else [])]))
    assert events[0] == Routed(Decision("local", "scripted", ("Offline: nothing can leave this machine.",)))
    ends = [event for event in events if isinstance(event, Finished | Failed)]
    assert ends == events[-1:]
    assert (ends[0] == Failed(error)) if error else isinstance(ends[0], Finished)


async def test_reasoning_is_told_from_the_answer() -> None:
    *events, _ = await play(ScriptedBackend(["<thi", "nk>why</", "think> so"]))
    assert events[1:] == [Delta("why", "reasoning"), Delta("so")]
    *events, _ = await play(ScriptedBackend(["why", "</think>", "so"]))
    assert events[1:] == [Delta("why"), Reclassified(), Delta("so")]


async def test_a_constrained_answer_is_taken_word_for_word() -> None:
    request = ChatRequest(REQUEST.messages, response_format=ResponseFormat("regex", ".*"))
    _, *deltas, _ = await play(ScriptedBackend(['{"a": "', "</think>", '"}']), request)
    assert deltas == [Delta('{"a": "'), Delta("</think>"), Delta('"}')]


async def test_what_was_said_before_an_error_stays() -> None:
    crash = BackendCrashed("gone", "again")
    assert (await play(ScriptedBackend(["a <", crash])))[1:] == [Delta("a "), Delta("<"), Failed(crash)]


async def test_a_crash_behind_a_whole_answer_is_not_a_second_end() -> None:
    end = Finished("stop")
    assert (await play(Backend(Delta("a"), end, BackendCrashed("gone"))))[1:] == [Delta("a"), end]


async def test_what_is_not_a_router_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        await play(Backend(Delta("a"), ZeroDivisionError()))


@pytest.mark.parametrize("format", [None, ResponseFormat("regex", ".*")])
@pytest.mark.parametrize("seen", [1, 2, 3])
async def test_closing_stops_the_backend(seen: int, format: ResponseFormat | None) -> None:
    backend = ScriptedBackend(["a", "b", "c"])
    async with aclosing(
        Dispatch(backend).stream(ChatRequest(REQUEST.messages, response_format=format))
    ) as events:
        for _ in range(seen):
            await anext(events)
    assert backend.closed == (seen > 1)  # at Routed it has not been asked yet
