"""What crosses the pipe arrives as it was sent, through one line of JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localchat.engines import protocol
from localchat.engines.protocol import LoadOptions
from router.decision import Decision
from router.errors import InvalidRequest
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Failed,
    Message,
    Reclassified,
    Routed,
    TokenScore,
)
from tests.localchat.engines.strategies import any_text, events, requests, valid_text


def through_a_line(wire: dict[str, Any]) -> dict[str, Any]:
    line = json.dumps(wire)
    assert "\n" not in line
    arrived: dict[str, Any] = json.loads(line)
    return arrived


@given(requests(valid_text))
def test_requests_arrive_as_they_were_sent(request: ChatRequest) -> None:
    assert protocol.request_from_wire(through_a_line(protocol.request_to_wire(request))) == request


@given(requests(any_text))
def test_contents_with_lone_surrogates_arrive_as_valid_unicode(request: ChatRequest) -> None:
    arrived = protocol.request_from_wire(through_a_line(protocol.request_to_wire(request)))
    for sent, message in zip(request.messages, arrived.messages, strict=True):
        message.content.encode()
        assert message.role == sent.role
    assert replace(arrived, messages=()) == replace(request, messages=())


@given(events)
def test_events_arrive_as_they_were_sent(event: Event) -> None:
    assert protocol.event_from_wire(through_a_line(protocol.event_to_wire(event))) == event


@given(st.floats(-50, 0), st.floats(0, 50), st.floats(0, 12))
def test_scores_arrive_to_a_thousandth(logprob: float, margin: float, entropy: float) -> None:
    sent = Delta("x", scores=(TokenScore(logprob, margin, entropy),))
    arrived = protocol.event_from_wire(through_a_line(protocol.event_to_wire(sent)))
    assert isinstance(arrived, Delta)
    (score,) = arrived.scores
    assert (score.logprob, score.margin, score.entropy) == pytest.approx((logprob, margin, entropy), abs=1e-3)


@pytest.mark.parametrize(
    "event", [Routed(Decision("local", "m")), Reclassified(), Failed(InvalidRequest("no"))], ids=repr
)
def test_an_engine_does_not_send_what_others_decide(event: Event) -> None:
    with pytest.raises(TypeError):
        protocol.event_to_wire(event)


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown event"):
        protocol.event_from_wire({"surprise": 1})


@given(any_text)
def test_cleaning_changes_nothing_but_lone_surrogates(text: str) -> None:
    cleaned = protocol.clean(text)
    cleaned.encode()
    assert protocol.clean(cleaned) == cleaned
    if not any(0xD800 <= ord(character) < 0xE000 for character in text):
        assert cleaned == text


def test_nul_and_control_characters_are_kept() -> None:
    everything = "".join(map(chr, range(0x20))) + "\x7f\u2028\ufeff\U0010ffff"
    assert protocol.clean(everything) == everything


def test_a_message_of_five_megabytes() -> None:
    request = ChatRequest((Message("user", "é\0\n🙂 " * 500_000),))
    assert protocol.request_from_wire(through_a_line(protocol.request_to_wire(request))) == request


def test_options_arrive_as_they_were_sent() -> None:
    options = LoadOptions("/é\udcff/m.gguf", 1, 2, 3, "q8_0", 4, "/l", 0.5, "/c")
    assert protocol.options_from_wire(through_a_line(asdict(options))) == options
