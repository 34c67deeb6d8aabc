"""Laws of a predicted stream: one prediction before the first token, and never an answer lost for it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router import forecaster
from router.dispatch import Dispatch
from router.errors import BackendCrashed, RouterError
from router.forecaster import Observed
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Failed,
    Finished,
    Message,
    Notice,
    Predicted,
    Progress,
    Routed,
)
from router.scripted import ScriptedBackend
from tests.router.forecasters import FORECAST, FakeForecaster, FakeWatch

REQUEST = ChatRequest((Message("user", "hi"),))
COUNTS = Progress("prefill", 40, 100, "tokens")
SCRIPT = (Progress("load", 1.0, 1.0, "fraction"), COUNTS, Progress("prefill", 100, 100, "tokens"), "a", "b")
STEPS: st.SearchStrategy[str | Event | RouterError] = st.sampled_from(
    [
        "a",
        "<think>",
        "</think>",
        Notice("n"),
        COUNTS,
        Progress("load", 1, 2, "fraction"),
        BackendCrashed("gone"),
    ]
)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forecaster, "PATIENCE_S", 0.05)


@pytest.fixture
def never() -> Iterator[Callable[[], object]]:
    """Hangs until the test is over."""
    over = threading.Event()
    yield over.wait
    over.set()


async def play(known: FakeForecaster, script: Sequence[str | Event | RouterError] = SCRIPT) -> list[Event]:
    return [event async for event in Dispatch(ScriptedBackend(script), known).stream(REQUEST)]


async def test_the_prediction_follows_the_counts_and_comes_before_the_first_token() -> None:
    known = FakeForecaster()
    events = await play(known)
    kinds = [type(event) for event in events]
    assert kinds == [Routed, Progress, Progress, Predicted, Progress, Delta, Delta, Finished]
    assert known.asked == [(100, 40)]
    predicted = events[3]
    assert isinstance(predicted, Predicted)
    assert (predicted.forecast.prompt_tokens, predicted.forecast.cached_tokens) == (100, 40)


@given(st.lists(STEPS, max_size=8), st.booleans())
async def test_any_stream_is_as_it_was_but_for_one_prediction(
    script: list[str | Event | RouterError], knows: bool
) -> None:
    known = FakeForecaster(knows=knows)
    events = await play(known, script)
    plain = [event async for event in Dispatch(ScriptedBackend(script)).stream(REQUEST)]
    predictions = [n for n, event in enumerate(events) if isinstance(event, Predicted)]
    others = [event for event in events if not isinstance(event, Predicted)]
    assert list(map(type, others)) == list(map(type, plain))
    assert [e for e in others if isinstance(e, Delta)] == [e for e in plain if isinstance(e, Delta)]
    assert len(predictions) == (knows and COUNTS in plain)
    if predictions:
        assert events[predictions[0] - 1] == COUNTS
        assert predictions[0] == events.index(COUNTS) + 1


def fails() -> None:
    raise ZeroDivisionError("a mistake in the forecaster")


@pytest.mark.parametrize("known", [FakeForecaster(knows=False), FakeForecaster(first=fails)])
async def test_without_a_forecast_the_answer_comes_all_the_same(known: FakeForecaster) -> None:
    events = await play(known)
    assert not any(isinstance(event, Predicted) for event in events)
    assert [e.text for e in events if isinstance(e, Delta)] == ["a", "b"]
    assert known.lessons == []


async def test_a_hanging_forecaster_costs_its_patience_once(soon: None, never: Callable[[], object]) -> None:
    known = FakeForecaster(first=never)
    dispatch = Dispatch(ScriptedBackend(SCRIPT), known)
    for _ in range(20):  # one that hangs is not asked again, and takes no further threads
        events = [event async for event in dispatch.stream(REQUEST)]
        assert isinstance(events[-1], Finished)
        assert not any(isinstance(event, Predicted) for event in events)
    assert len(known.asked) == 1
    assert sum(thread.name == "forecaster" for thread in threading.enumerate()) == 1


async def test_a_slow_forecaster_is_late_once_and_asked_again_when_it_is_back(soon: None) -> None:
    gate = threading.Event()
    known = FakeForecaster(first=gate.wait)
    dispatch = Dispatch(ScriptedBackend(SCRIPT), known)
    assert not any([isinstance(event, Predicted) async for event in dispatch.stream(REQUEST)])
    gate.set()
    for thread in threading.enumerate():
        if thread.name == "forecaster":
            await asyncio.to_thread(thread.join)
    assert any([isinstance(event, Predicted) async for event in dispatch.stream(REQUEST)])


async def test_a_reply_is_learned_from_when_it_has_ended() -> None:
    known = FakeForecaster(watched=FakeWatch(Observed(2.0, 2, 0.5)))
    async with aclosing(Dispatch(ScriptedBackend(SCRIPT), known).stream(REQUEST)) as events:
        async for event in events:
            assert known.lessons == []
            assert known.watched.begun == (isinstance(event, Delta | Finished))
    ((forecast, finished, observed),) = known.lessons
    assert (forecast.decode_tokens_per_s, finished.usage.completion_tokens) == (80.0, 2)
    assert observed == Observed(2.0, 2, 0.5)


@pytest.mark.parametrize("script", [(*SCRIPT, BackendCrashed("gone")), SCRIPT[2:]])
async def test_what_failed_or_was_not_predicted_teaches_nothing(
    script: Sequence[str | Event | RouterError],
) -> None:
    known = FakeForecaster(knows=len(script) > len(SCRIPT))
    assert isinstance((await play(known, script))[-1], Finished | Failed)
    assert known.lessons == []


async def test_a_stopped_reply_teaches_nothing_and_stops_the_backend() -> None:
    known, backend = FakeForecaster(), ScriptedBackend(SCRIPT)
    async with aclosing(Dispatch(backend, known).stream(REQUEST)) as events:
        async for event in events:
            if isinstance(event, Delta):
                break
    assert (known.lessons, backend.closed) == ([], 1)


async def test_a_failing_lesson_or_observation_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in ((FakeForecaster, "learn"), (FakeWatch, "observed"), (FakeWatch, "begin")):
        with monkeypatch.context() as broken:
            broken.setattr(owner, name, lambda *_: fails())
            events = await play(FakeForecaster())
            assert isinstance(events[-1], Finished)
            assert [e.text for e in events if isinstance(e, Delta)] == ["a", "b"]


def test_the_error_is_signed_and_in_percent_of_the_prediction() -> None:
    assert FORECAST.error_percent(FORECAST.decode_tokens_per_s) == 0
    assert FORECAST.error_percent(60.0) == pytest.approx(-25)
    assert FORECAST.error_percent(88.0) == pytest.approx(10)
    assert replace(FORECAST, guessed=True).error_percent(88.0) is None
