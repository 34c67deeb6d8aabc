"""Where an answer came from survives the store, whatever it was."""

from hypothesis import given
from hypothesis import strategies as st

from localchat.card import Card, from_json, to_json, with_event
from localchat.history import History
from router.decision import CacheLabel, Confidence, Decision, Estimate, Verdict
from router.request import (
    CacheHit,
    Delta,
    Finished,
    HandedOff,
    Judged,
    Recorded,
    Routed,
    Simulated,
    Usage,
    Validated,
)

LOCAL = Decision("local", "small", ("It is easy.",), expected=Estimate("local", "small", 0.1, 2.0, 0.0))


@given(st.from_type(Card).filter(lambda card: "NaN" not in to_json(card)))
def test_any_card_is_read_back(card: Card) -> None:
    assert from_json(to_json(card)) == card


@given(st.text() | st.sampled_from(["{}", "[]", "3", '{"decision": {}}', '{"decision": []}', "null"]))
def test_what_is_no_card_is_none(text: str) -> None:
    assert from_json(text) is None


def test_fields_of_a_newer_program_are_left_aside() -> None:
    card = Card(LOCAL)
    newer = to_json(card).replace('"route": "local"', '"route": "local", "mood": "good"')
    assert from_json(newer) == card


def test_a_card_collects_what_the_events_say() -> None:
    label = CacheLabel("semantic", 3, "What is it?", 0.97, 0.95, 60.0)
    events = [
        Routed(LOCAL),
        CacheHit(label),
        Judged(Confidence(0.7, 0.5, 16, True)),
        HandedOff("local", "cloud", "It was unsure."),
        Delta("Text"),
        Validated((Verdict("format", False, "It is no JSON."),)),
        Recorded("9f"),
        Finished("stop", Usage(), cost_usd=0.01, simulated=Simulated("h100")),
    ]
    card = None
    for event in events:
        card = with_event(card, event)
    assert card is not None
    assert (card.route, card.entry, card.cost_usd) == ("cloud", "9f", 0.01)
    assert card.failed_checks == card.verdicts
    assert card.simulated == Simulated("h100")
    assert with_event(None, Delta("x")) is None


def test_the_store_keeps_it_and_a_partial_save_does_not_lose_it() -> None:
    card = Card(LOCAL, entry="4f")
    with History(None) as history:
        reply = history.add(history.new_conversation().id, None, "assistant", "", state="streaming")
        history.update(reply.id, content="Yes", state="streaming", card=card)
        history.update(reply.id, content="Yes.", state="done")
        assert history.message(reply.id).card == card


def test_a_pinned_conversation_stays_pinned() -> None:
    with History(None) as history:
        info = history.new_conversation()
        assert not info.pinned
        history.pin(info.id, True)
        assert history.conversation(info.id).pinned
