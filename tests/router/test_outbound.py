"""The way out: nothing leaves unseen, what was taken out comes back, money is set aside, answers are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from router.budget import Budget, Purse
from router.cache.answers import AnswerCache
from router.call import Call
from router.cloud.target import make_target
from router.consent import Consent, Departure, Rule
from router.decision import Turn
from router.errors import CloudCutOff, OverBudget, Withheld
from router.outbound import OutboundRoute
from router.prices import Price
from router.privacy import scan_text
from router.request import CacheHit, ChatRequest, Delta, Event, Finished, Message, Sampling, Usage
from router.scripted import ScriptedBackend
from router.sides import LONGEST_ANSWER, There
from tests.router.cache.fakes import FakeEmbedder, FakeGuard, calibration

CARD = "4111 1111 1111 1111"
PRIVATE = ChatRequest((Message("user", f"Is {CARD} a Visa?"),))
PLAIN = ChatRequest((Message("user", "What is the capital of France?"),))
TARGET = make_target("custom", base_url="http://127.0.0.1:1/v1", model="far", temperature=0.2)
PRICE = Price(1.0, 2.0, 0.5)
END = Finished("stop", Usage(10, 0, 5), model="far", cost_usd=0.00002)


class Asking:
    def __init__(self, consent: Consent) -> None:
        self.consent, self.departures = consent, list[Departure]()

    async def __call__(self, departure: Departure) -> Consent:
        self.departures.append(departure)
        return self.consent


def route(
    cloud: ScriptedBackend,
    rule: Rule = "ask",
    asking: Asking | None = None,
    purse: Purse | None = None,
    price: Price | None = PRICE,
    cache: AnswerCache | None = None,
) -> OutboundRoute:
    purse = purse or Purse(Budget(1.0, 1.0))
    return OutboundRoute(cloud, TARGET, There("far", price), purse, rule, asking or Asking("keep"), cache)


async def go(out: OutboundRoute, request: ChatRequest, turn: Turn | None = None) -> tuple[Call, list[Event]]:
    call, events = Call(request, turn or Turn("cloud", "1")), list[Event]()
    async for event in out.stream(call):
        call.take(event)
        events.append(event)
    return call, events


def said(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


async def test_what_is_harmless_leaves_as_it_is_with_everything_resolved() -> None:
    cloud, asking = ScriptedBackend(["Paris."]), Asking("keep")
    _, events = await go(route(cloud, asking=asking), PLAIN)
    assert (said(events), asking.departures) == ("Paris.", [])
    sent = cloud.requests[0]
    assert sent.messages == PLAIN.messages
    assert (sent.sampling.temperature, sent.sampling.max_tokens) == (0.2, LONGEST_ANSWER)


@pytest.mark.parametrize(("rule", "consent"), [("redact", "keep"), ("ask", "redact")])
async def test_placeholders_leave_and_the_values_come_back(rule: Rule, consent: Consent) -> None:
    cloud = ScriptedBackend(["<CARD", "_1> is", " a Visa."])
    call, events = await go(route(cloud, rule, Asking(consent)), PRIVATE)
    told, asked = cloud.requests[0].messages
    assert (told.role, "exactly as they are" in told.content) == ("system", True)
    assert asked.content == "Is <CARD_1> a Visa?"
    assert said(events) == f"{CARD} is a Visa."
    assert (call.privacy_action, dict(call.privacy_found)) == ("redacted", {"card": 1})


@pytest.mark.parametrize(
    ("rule", "consent", "action"), [("local", "send", "kept local"), ("ask", "keep", "refused")]
)
async def test_what_is_kept_never_leaves(rule: Rule, consent: Consent, action: str) -> None:
    cloud = ScriptedBackend()
    out = route(cloud, rule, Asking(consent))
    call = Call(PRIVATE, Turn("cloud", "1"))
    with pytest.raises(Withheld, match="1 card number"):
        _ = [event async for event in out.stream(call)]
    assert (cloud.requests, call.privacy_action) == ([], action)


async def test_a_person_sees_exactly_what_would_leave_and_is_not_asked_twice() -> None:
    cloud, asking = ScriptedBackend(["Yes."]), Asking("send")
    out = route(cloud, asking=asking)
    await go(out, PRIVATE)
    (departure,) = asking.departures
    assert CARD in departure.body
    assert CARD not in departure.redacted
    assert "1 card number" in departure.found
    more = replace(
        PRIVATE, messages=(*PRIVATE.messages, Message("assistant", "Yes."), Message("user", "Sure?"))
    )
    await go(out, more)
    assert len(asking.departures) == 1
    await go(out, PRIVATE, Turn("cloud", "2"))  # another conversation
    other = replace(more, messages=(*more.messages, Message("user", "And 5555 5555 5555 4444?")))
    await go(out, other)  # another card
    await go(out, other, Turn("cloud", "1", fresh=True))  # asked for anew
    assert len(asking.departures) == 4


async def test_what_it_costs_is_paid_and_never_more_than_was_set_aside() -> None:
    purse = Purse(Budget(1.0, 1.0))
    call, _ = await go(route(ScriptedBackend(["Paris.", END]), purse=purse), PLAIN)
    assert call.paid_usd == END.cost_usd
    assert purse.budget("1").spent_today_usd == pytest.approx(END.cost_usd)


async def test_beyond_the_budget_nothing_is_sent() -> None:
    cloud = ScriptedBackend()
    with pytest.raises(OverBudget):
        await go(route(cloud, purse=Purse(Budget(0.001, None))), PLAIN)
    assert cloud.requests == []
    tight = replace(PLAIN, sampling=Sampling(max_tokens=4))
    await go(route(cloud, purse=Purse(Budget(0.001, None))), tight)
    assert len(cloud.requests) == 1


async def test_an_answer_that_broke_off_is_paid_for_as_far_as_it_came() -> None:
    purse, cloud = Purse(Budget(1.0, 1.0)), ScriptedBackend(["Pa", CloudCutOff("cut")])
    with pytest.raises(CloudCutOff):
        await go(route(cloud, purse=purse), PLAIN)
    paid = purse.budget("1").spent_today_usd
    assert 0 < paid < 0.001
    with pytest.raises(CloudCutOff):
        await go(route(ScriptedBackend([CloudCutOff("cut")]), purse=purse), PLAIN)
    assert purse.budget("1").spent_today_usd == paid


@pytest.fixture
async def cache(tmp_path: Path) -> AsyncIterator[AnswerCache]:
    found = AnswerCache(
        tmp_path / "cache.db",
        FakeEmbedder(),
        FakeGuard(),
        has_personal_data=lambda text: bool(scan_text(text)),
        calibration=calibration,
    )
    yield found
    await found.close()


async def test_the_same_question_is_answered_from_the_cache_and_costs_nothing(cache: AnswerCache) -> None:
    cloud = ScriptedBackend(["Paris.", END])
    out = route(cloud, cache=cache)
    await go(out, PLAIN)
    call, events = await go(out, PLAIN)
    assert isinstance(events[0], CacheHit)
    assert (said(events), len(cloud.requests)) == ("Paris.", 1)
    assert (call.avoided_usd, call.paid_usd) == (END.cost_usd, None)
    _, events = await go(out, PLAIN, Turn("cloud", "1", fresh=True))
    assert not isinstance(events[0], CacheHit)


async def test_what_broke_off_or_held_a_secret_is_not_kept(cache: AnswerCache) -> None:
    with pytest.raises(CloudCutOff):
        await go(route(ScriptedBackend(["Pa", CloudCutOff("cut")]), cache=cache), PLAIN)
    cloud = ScriptedBackend(["Paris.", END])
    await go(route(cloud, cache=cache), PLAIN)
    assert len(cloud.requests) == 1
    cloud = ScriptedBackend(["Yes.", END])
    for _ in range(2):
        await go(route(cloud, "redact", cache=cache), PRIVATE)
    assert len(cloud.requests) == 2


async def test_a_cost_that_cannot_be_is_unknown_and_no_more_is_paid_than_was_set_aside() -> None:
    purse, lie = Purse(Budget(1.0, 1.0)), replace(END, cost_usd=10.0)
    call, events = await go(route(ScriptedBackend(["Paris.", lie]), purse=purse), PLAIN)
    assert isinstance(events[-1], Finished)
    assert (events[-1].cost_usd, call.paid_usd) == (None, None)
    worst = There("far", PRICE).worst_cost_usd(replace(PLAIN, sampling=Sampling(max_tokens=LONGEST_ANSWER)))
    assert purse.budget("1").spent_today_usd == worst
