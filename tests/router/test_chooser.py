"""What is found out before the policy decides, and what is remembered afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from router.budget import Budget, Purse
from router.call import Call
from router.chooser import RouteChooser
from router.consent import Rule
from router.decision import Confidence, Turn
from router.errors import BackendCrashed, Refused
from router.gate import Gate
from router.policy import Limits
from router.prices import Price
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Finished,
    Message,
    Timings,
    TokenScore,
    Usage,
)
from router.scripted import ScriptedBackend
from router.sides import Here, There, usual_tokens
from tests.router.forecasters import FORECAST

EASY = ChatRequest((Message("user", "2+2"),))
HARD = ChatRequest((Message("user", "Explain the mathematical basis of quantum entanglement."),))
AUTO = Turn("auto", "1")
PRICE = Price(1.0, 2.0, 0.5)


def chooser(
    model: ScriptedBackend | None = None,
    rule: Rule = "ask",
    budget: Budget | None = None,
    price: Price | None = PRICE,
    unavailable: str = "",
    spent: tuple[float, float] = (0.0, 0.0),
) -> RouteChooser:
    model = model or ScriptedBackend(loaded=True)
    return RouteChooser(
        Here(model, None),
        There("far", price, unavailable=lambda: unavailable),
        Purse(budget or Budget(1.0, 1.0)),
        Limits(20.0, 180.0),
        rule,
        lambda conversation: spent,
        lambda: Gate(lambda scores, text: pytest.fail("nothing was said")),
    )


async def test_an_easy_question_stays_and_a_hard_one_goes() -> None:
    choosing = chooser()
    assert (await choosing.choose(EASY, AUTO)).route == "local"
    decision = await choosing.choose(HARD, AUTO)
    assert decision.route == "cloud"
    assert decision.reasons
    assert [other.estimate.route for other in decision.alternatives] == ["local"]


async def test_what_does_not_fit_here_goes_and_is_counted_exactly() -> None:
    long = ChatRequest((Message("user", "word " * 9_000),))
    small, roomy = (ScriptedBackend(loaded=True, window_tokens=size) for size in (8192, 16_384))
    decision = await chooser(small).choose(long, AUTO)
    assert (decision.route, decision.reasons[0].split(":")[0]) == ("cloud", "Too large here")
    assert "Too large" not in (await chooser(roomy).choose(long, AUTO)).reasons[0]


async def test_a_short_question_does_not_wait_for_the_model_to_be_counted() -> None:
    class Loading(ScriptedBackend):
        async def count_tokens(self, messages: object) -> int:
            raise AssertionError("it was waited for")

    assert (await chooser(Loading()).choose(EASY, AUTO)).route == "local"


async def test_a_conversation_in_the_cloud_stays_there_for_a_short_follow_up() -> None:
    choosing = chooser()
    middling = ChatRequest((Message("user", "Compare two sorting algorithms for me, in some detail."),))
    first = await choosing.choose(HARD, AUTO)
    call = Call(HARD, AUTO, first, finished=Finished("stop"))
    choosing.ended(call)
    follows = await choosing.choose(middling, AUTO)
    fresh = await choosing.choose(middling, Turn("auto", "2"))
    assert follows.difficulty == fresh.difficulty
    if Limits().easy <= (fresh.difficulty or 0) < Limits().hard:
        assert (follows.route, fresh.route) == ("cloud", "local")


@pytest.mark.parametrize(
    "changes",
    [
        {"unavailable": "It is resting."},
        {"price": None},
        {"budget": Budget(0.001, None)},
        {"spent": (0.9999, 0.0)},
        {"spent": (0.0, 0.9999)},
    ],
    ids=repr,
)
async def test_where_the_cloud_may_not_be_asked_it_stays(
    changes: dict[str, object],
) -> None:
    choosing = chooser(**changes)  # type: ignore[arg-type]  # each is one of its arguments
    decision = await choosing.choose(HARD, AUTO)
    assert decision.route == "local"
    call = Call(HARD, AUTO, decision)
    assert choosing.gate(call) is None
    assert not choosing.may_leave(call)
    if "price" not in changes:
        with pytest.raises(Refused):
            await choosing.choose(HARD, Turn("cloud", "1"))


async def test_private_questions_stay_where_the_rule_says_so() -> None:
    private = replace(HARD, messages=(Message("user", f"{HARD.messages[0].content} 4111 1111 1111 1111"),))
    decision = await chooser(rule="local").choose(private, AUTO)
    assert decision.route == "local"
    assert "card number" in decision.reasons[0]
    assert (await chooser(rule="ask").choose(private, AUTO)).route == "cloud"


async def test_only_doubtful_questions_in_auto_mode_are_judged() -> None:
    choosing = chooser()
    choosing.limits = replace(choosing.limits, hard=1.0, easy=0.25)
    doubtful = await choosing.choose(HARD, AUTO)
    assert doubtful.route == "local"
    assert choosing.gate(Call(HARD, AUTO, doubtful)) is not None
    easy = await choosing.choose(EASY, AUTO)
    assert choosing.gate(Call(EASY, AUTO, easy)) is None


async def test_what_is_remembered_of_a_decision_goes_with_its_end() -> None:
    choosing = chooser()
    decision = await choosing.choose(EASY, AUTO)
    call = Call(EASY, AUTO, decision)
    assert choosing.may_leave(call)
    choosing.ended(call)
    assert not choosing._open


async def test_the_clouds_pace_is_learned_from_its_answers() -> None:
    there = There("far", Price(1.0, 2.0, 0.5))
    assert there.side(EASY, 10).estimate.total_s is None
    there.answered(Finished("stop", Usage(), Timings(ttft_s=1.0, decode_tokens_per_s=50.0)))
    estimate = there.side(EASY, 10).estimate
    assert (estimate.ttft_s, estimate.total_s) == (1.0, 1.0 + usual_tokens(EASY) / 50.0)
    there.answered(Finished("stop", Usage(), Timings(ttft_s=3.0, decode_tokens_per_s=50.0)))
    assert 1.0 < (there.side(EASY, 10).estimate.ttft_s or 0) < 3.0


async def test_what_the_engine_holds_already_is_not_waited_for_again() -> None:
    class Forecasting:
        def __init__(self) -> None:
            self.asked: list[tuple[int, int]] = []

        def forecast(self, prompt_tokens: int, cached_tokens: int) -> object:
            self.asked.append((prompt_tokens, cached_tokens))
            return FORECAST

    forecaster = Forecasting()
    here = Here(ScriptedBackend(loaded=True), forecaster)  # type: ignore[arg-type]  # all that is asked of one
    await here.side(EASY, 10)
    here.answered(EASY, "4.", Finished("stop", Usage(10, 0, 3)))
    follow = ChatRequest((*EASY.messages, Message("assistant", "4."), Message("user", "And 3+3?")))
    await here.side(follow, 25)
    await here.side(HARD, 25)
    assert forecaster.asked == [(10, 0), (25, 13), (25, 0)]


async def test_a_short_answer_is_drawn_several_times_before_it_is_given_up() -> None:
    asked: list[tuple[ChatRequest, int]] = []

    def gate_over(*events: Event) -> Gate:
        gate = Gate(lambda scores, text: Confidence(0.6, 0.5, len(scores), True))
        for event in events:
            gate.feed(event)
        assert gate.hands_off
        return gate

    async def vote(request: ChatRequest, count: int) -> list[str]:
        asked.append((request, count))
        return ["Four."] * count

    score = TokenScore(-2.0, 0.1, 2.0)
    short = gate_over(Delta("Four.", scores=(score,)), Finished("stop"))
    choosing = chooser()
    choosing.vote = vote
    call = Call(EASY, AUTO)
    opinion = await choosing.second_opinion(call, short)
    assert opinion is not None
    assert not opinion.is_low  # they agree
    assert [type(event).__name__ for event in short.reconsidered(opinion)] == ["Judged", "Delta", "Finished"]
    ((request, count),) = asked
    assert (request.messages, count) == (EASY.messages, 4)
    assert request.sampling.temperature > 0.5
    long = gate_over(*[Delta("word ", scores=(score,))] * 32)
    assert await choosing.second_opinion(call, long) is None

    async def broken(request: ChatRequest, count: int) -> list[str]:
        raise BackendCrashed("gone")

    choosing.vote = broken
    assert (
        await choosing.second_opinion(call, gate_over(Delta("Four.", scores=(score,)), Finished("stop")))
        is None
    )
