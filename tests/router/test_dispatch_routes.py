"""The path between this machine and elsewhere: who goes on when one side cannot, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.call import Call
from router.decision import Confidence, Turn, Verdict
from router.dispatch import Dispatch, Elsewhere
from router.errors import (
    BackendCrashed,
    CloudCutOff,
    CloudUnreachable,
    ContextOverflow,
    InvalidRequest,
    RouterError,
    Withheld,
)
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Failed,
    Finished,
    HandedOff,
    Judged,
    Message,
    Notice,
    Recorded,
    ResponseFormat,
    Routed,
    Validated,
)
from router.scripted import ScriptedBackend
from tests.router.elsewhere import UNSURE, Choosing, Out, Written

ASKED = ChatRequest((Message("user", "why?"),))
AUTO = Turn("auto")


async def answer(
    local: ScriptedBackend,
    out: Out,
    choosing: Choosing,
    request: ChatRequest = ASKED,
    check: Callable[[Call], tuple[Verdict, ...]] | None = None,
    book: Written | None = None,
) -> list[Event]:
    dispatch = Dispatch(local, None, lambda: Elsewhere(choosing, out), check, book)
    return [event async for event in dispatch.stream(request, AUTO)]


def said(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def moves(events: Sequence[Event]) -> list[tuple[str, str, bool]]:
    return [(e.source, e.target, bool(e.kept)) for e in events if isinstance(e, HandedOff)]


async def test_the_cloud_answers_what_it_is_chosen_for() -> None:
    local = ScriptedBackend()
    events = await answer(local, Out("Far."), Choosing("cloud"))
    assert (said(events), moves(events), local.requests) == ("Far.", [], [])


async def test_when_the_cloud_fails_midway_the_words_stay_and_this_machine_goes_on() -> None:
    local = ScriptedBackend(["there."])
    events = await answer(local, Out("Almost ", CloudCutOff("Cut off.")), Choosing("cloud"))
    assert (said(events), moves(events)) == ("Almost there.", [("cloud", "local", True)])
    assert local.requests[0].messages == (*ASKED.messages, Message("assistant", "Almost "))
    assert isinstance(events[-1], Finished)


async def test_before_the_first_word_nothing_is_kept() -> None:
    local = ScriptedBackend(["Near."])
    for error in (CloudUnreachable("No way."), Withheld("It holds a card number.")):
        events = await answer(local, Out(error), Choosing("cloud"))
        assert (said(events), moves(events)) == ("Near.", [("cloud", "local", False)])
        assert local.requests[-1] == ASKED


async def test_a_form_cannot_be_entered_midway() -> None:
    request = ChatRequest(ASKED.messages, response_format=ResponseFormat("json_schema", "{}"))
    cut = CloudCutOff("Cut off.")
    events = await answer(ScriptedBackend(), Out('{"a"', cut), Choosing("cloud"), request)
    assert (events[-1], moves(events)) == (Failed(cut), [])


async def test_what_is_wrong_with_the_request_is_wrong_everywhere() -> None:
    bad = InvalidRequest("No.")
    events = await answer(ScriptedBackend(), Out(bad), Choosing("cloud"))
    assert (events[-1], moves(events)) == (Failed(bad), [])


@pytest.mark.parametrize("error", [ContextOverflow(9, 8), BackendCrashed("Gone.")])
async def test_what_this_machine_cannot_do_goes_on_elsewhere_if_it_may(error: RouterError) -> None:
    events = await answer(ScriptedBackend([error]), Out("Far."), Choosing())
    assert (said(events), moves(events)) == ("Far.", [("local", "cloud", False)])
    events = await answer(ScriptedBackend([error]), Out("Far."), Choosing(leave=False))
    assert (events[-1], moves(events)) == (Failed(error), [])
    gone = CloudUnreachable("No way.")
    events = await answer(ScriptedBackend([error]), Out(gone), Choosing())
    assert (events[-1], moves(events)) == (Failed(gone), [("local", "cloud", False)])


async def test_a_local_answer_that_begins_unsurely_is_never_shown() -> None:
    local = ScriptedBackend(["Hm ", "well ", "no"])
    events = await answer(local, Out("Far."), Choosing(doubts=True))
    assert (said(events), moves(events), local.closed) == ("Far.", [("local", "cloud", False)], 1)
    assert events.index(Judged(UNSURE)) < events.index(Delta("Far."))


async def test_without_a_cloud_to_go_to_the_unsure_answer_is_better_than_none() -> None:
    local = ScriptedBackend(["Hm ", "well."])
    events = await answer(local, Out(CloudUnreachable("No way.")), Choosing(doubts=True))
    assert said(events) == "Hm well."
    assert moves(events) == [("local", "cloud", False), ("cloud", "local", False)]


STEPS = st.sampled_from(["a", "b ", CloudCutOff("cut"), ContextOverflow(9, 8), BackendCrashed("gone")])


@given(
    st.lists(STEPS, max_size=4),
    st.lists(STEPS, max_size=4),
    st.sampled_from(["local", "cloud"]),
    st.sampled_from([None, True, False]),
    st.booleans(),
)
async def test_every_request_ends_once_and_goes_in_no_circle(
    here: list[str | Event | RouterError],
    there: list[str | Event | RouterError],
    route: str,
    doubts: bool | None,
    leave: bool,
) -> None:
    choosing = Choosing(route, doubts, leave)
    events = await answer(ScriptedBackend(here), Out(*there), choosing)
    assert isinstance(events[0], Routed)
    assert [type(e) in (Finished, Failed) for e in events] == [False] * (len(events) - 1) + [True]
    assert len(moves(events)) <= 2
    assert all(one[1] == two[0] for one, two in pairwise(moves(events)))
    (call,) = choosing.calls
    assert call.text == said(events)
    assert (call.finished is None) == isinstance(events[-1], Failed)


async def test_an_answer_is_checked_and_recorded_before_its_end() -> None:
    verdict, book = Verdict("facts", False, "It is Rome."), Written()
    local = ScriptedBackend(["Paris"])
    events = await answer(local, Out(), Choosing(), check=lambda call: (verdict,), book=book)
    assert events[-3:-1] == [Validated((verdict,)), Recorded("7f3")]
    (call,) = book.calls
    assert (call.text, call.verdicts, call.route) == ("Paris", (verdict,), "local")


async def test_a_book_that_cannot_be_written_costs_a_notice_and_no_answer() -> None:
    events = await answer(ScriptedBackend(["Paris"]), Out(), Choosing(), book=Written(["The disk is full."]))
    assert events[-2] == Notice("Answers are not being recorded. The disk is full.")
    assert isinstance(events[-1], Finished)


async def test_what_failed_or_was_stopped_is_recorded_too_and_once() -> None:
    book = Written()
    await answer(ScriptedBackend([ContextOverflow(9, 8)]), Out(), Choosing(leave=False), book=book)
    dispatch = Dispatch(ScriptedBackend(["a", "b"]), book=book)
    events = dispatch.stream(ASKED)
    await anext(events)
    await anext(events)
    await events.aclose()
    assert [(call.error is not None, call.finished) for call in book.calls] == [(True, None), (False, None)]


@pytest.mark.parametrize("turn", [Turn("local"), Turn("auto", pinned=True), Turn("cloud", pinned=True)])
async def test_what_stays_here_never_even_builds_the_other_side(turn: Turn) -> None:
    def elsewhere() -> Elsewhere:
        raise AssertionError("it was built")

    overflow = ContextOverflow(9, 8)
    dispatch = Dispatch(ScriptedBackend(["Hi", overflow]), None, elsewhere)
    events = [event async for event in dispatch.stream(ASKED, turn)]
    assert (said(events), events[-1], moves(events)) == ("Hi", Failed(overflow), [])


async def test_a_conversation_that_is_pinned_stays_though_the_other_side_is_there() -> None:
    choosing = Choosing("cloud", doubts=True)
    dispatch = Dispatch(ScriptedBackend(["Hm ", "well."]), None, lambda: Elsewhere(choosing, Out("Far.")))
    assert said([event async for event in dispatch.stream(ASKED, AUTO)]) == "Far."
    events = [event async for event in dispatch.stream(ASKED, Turn("auto", pinned=True))]
    assert (said(events), moves(events)) == ("Hm well.", [])


@pytest.mark.parametrize("p_wrong", [0.1, 0.9])
async def test_a_second_opinion_may_keep_what_was_to_be_handed_off(p_wrong: float) -> None:
    local, opinion = ScriptedBackend(["Four."]), Confidence(p_wrong, 0.5, 2, True)
    events = await answer(local, Out("Far."), Choosing(doubts=True, opinion=opinion))
    assert [event.confidence for event in events if isinstance(event, Judged)] == [UNSURE, opinion]
    kept = p_wrong < 0.5
    assert (said(events), moves(events)) == (("Four.", []) if kept else ("Far.", [("local", "cloud", False)]))
    assert isinstance(events[-1], Finished)
