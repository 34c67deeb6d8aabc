"""Each rule of dynamic batching on a trace worked out by hand. A batch takes 10 ms + 1 ms for each member."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pytest

from router.errors import InvalidSimulation
from router.simcloud.dynamic.batch_cost import LinearBatch, PaddedGeneration
from router.simcloud.dynamic.queue import QueueRule
from router.simcloud.dynamic.repository import Call, Repository, ServedModel
from router.simcloud.dynamic.rule import BatchRule
from router.simcloud.dynamic.server import Answered, Outcome, Server
from router.simcloud.request import Rejected
from router.simcloud.step_cost import LinearCost
from tests.router.simcloud.serving import job

COST = LinearBatch(0.010, 0.001)
ALWAYS = QueueRule()
NO_LEVELS: Mapping[int, QueueRule] = {}


def calls(*arrivals_ms: float, priorities: Mapping[int, int] | None = None) -> list[Call]:
    return [
        Call(job(number, ms / 1000, 128, 1, priority=(priorities or {}).get(number, 1)))
        for number, ms in enumerate(arrivals_ms)
    ]


def outcomes(asked: Iterable[Call], *models: ServedModel) -> dict[int, Outcome]:
    found: dict[int, Outcome] = {}
    Server(Repository(models, latest=None), asked, lambda each: found.update({each.request.id: each})).run()
    return found


def ends_ms(
    asked: Iterable[Call],
    rule: BatchRule,
    instances: int = 1,
    queue: QueueRule = ALWAYS,
    levels: Mapping[int, QueueRule] = NO_LEVELS,
) -> list[float]:
    """When each is answered, in order of arrival; a rejected one counts negative."""
    model = ServedModel("m", COST, rule, instances=instances, queue=queue, levels=levels)
    found = outcomes(asked, model)
    return [
        round(1000 * (each.finished_s if isinstance(each, Answered) else -each.at_s), 3)
        for _, each in sorted(found.items())
    ]


def test_without_a_delay_an_idle_instance_takes_what_is_there() -> None:
    """0 goes alone; 1 and 2 came while it ran."""
    asked = calls(0, 1, 2)
    assert ends_ms(asked, BatchRule(8)) == [11, 23, 23]
    assert ends_ms(asked, BatchRule(1)) == [11, 22, 33]


def test_a_delay_waits_for_company_from_the_oldest_arrival_on() -> None:
    """Sent at 5 ms with 0, 1, 2; 3 comes while they run, and when they end it has waited longer than 5 ms."""
    assert ends_ms(calls(0, 1, 2, 6), BatchRule(8, max_delay_s=0.005)) == [18, 18, 18, 29]
    assert ends_ms(calls(0, 1, 2, 6), BatchRule(8)) == [11, 24, 24, 24]


def test_the_arrival_that_fills_a_batch_sends_it_at_once() -> None:
    assert ends_ms(calls(0, 1, 2), BatchRule(3, max_delay_s=0.005)) == [15, 15, 15]
    assert ends_ms(calls(0, 1, 2), BatchRule(8, max_delay_s=0.005)) == [18, 18, 18]


def test_the_arrival_that_completes_a_preferred_size_sends_it_at_once() -> None:
    """2 alone is no preferred size: its delay is over at 7 ms, but the instance is busy longer."""
    assert ends_ms(calls(0, 1, 2), BatchRule(8, (2,), 0.005)) == [13, 13, 24]


def test_the_largest_preferred_size_goes_and_the_rest_waits() -> None:
    """While 0 runs, five come: 4 of them are the largest preferred size."""
    asked = calls(0, 1, 2, 3, 4, 5)
    rule = BatchRule(8, (2, 4), 0.020)
    assert ends_ms(asked, rule) == [13, 13, 27, 27, 27, 27]
    late = BatchRule(8, (4,), 0.003)  # sent at 3 ms: 4 are there
    assert ends_ms(asked, late) == [17, 17, 17, 17, 29, 29]
    assert ends_ms(asked, BatchRule(8, max_delay_s=0.003)) == [17, 17, 17, 17, 29, 29]
    assert ends_ms(asked, BatchRule(8, (5,), 0.020)) == [19, 19, 19, 19, 19, 36]


def test_the_most_urgent_level_goes_first() -> None:
    asked = calls(0, 1, 2, 3, priorities={3: 0})
    assert ends_ms(asked, BatchRule(2)) == [11, 23, 34, 23]
    assert ends_ms(calls(0, 1, 2, 3), BatchRule(2)) == [11, 23, 23, 34]


def test_a_full_queue_rejects_at_once() -> None:
    asked = calls(0, 1, 2, 3)
    assert ends_ms(asked, BatchRule(8), queue=QueueRule(limit=2)) == [11, 23, 23, -3]


def test_a_level_has_its_own_limit() -> None:
    model = ServedModel("m", COST, BatchRule(8), levels={1: QueueRule(limit=1)})
    found = outcomes(calls(0, 1, 2, 3, priorities={3: 0}), model)
    assert [type(found[number]) for number in range(4)] == [Answered, Answered, Rejected, Answered]


def test_who_waits_too_long_is_rejected_then_or_deferred() -> None:
    """One at a time: 0 ends at 11. 1 would wait for 10 ms, its time of 6 ms is over at 7; 2's (8) at 14."""
    asked = calls(0, 1, 8)
    reject = QueueRule(timeout_s=0.006)
    defer = QueueRule(timeout_s=0.006, on_timeout="defer")
    assert ends_ms(asked, BatchRule(1)) == [11, 22, 33]
    assert ends_ms(asked, BatchRule(1), queue=reject) == [11, -7, 22]
    assert ends_ms(asked, BatchRule(1), queue=defer) == [11, 33, 22]


def test_a_deferred_request_goes_before_less_urgent_levels() -> None:
    asked = calls(0, 1, 8, 9, priorities={0: 0, 1: 0, 2: 0})
    defer = QueueRule(timeout_s=0.006, on_timeout="defer")
    assert ends_ms(asked, BatchRule(1), levels={0: defer}) == [11, 33, 22, 44]


def test_instances_share_the_queue() -> None:
    assert ends_ms(calls(0, 1, 2), BatchRule(8), instances=2) == [11, 12, 22]
    assert ends_ms(calls(0, 1, 2), BatchRule(8), instances=1) == [11, 23, 23]


def test_a_version_has_its_own_queue_and_the_highest_is_meant() -> None:
    slow, fast = (
        ServedModel("m", LinearBatch(seconds, 0.0), version=version)
        for version, seconds in ((1, 0.020), (2, 0.010))
    )
    first, second = calls(0, 0)
    old = outcomes([first, Call(second.job, "m", 1)], slow, fast)
    ends = [each.finished_s for _, each in sorted(old.items()) if isinstance(each, Answered)]
    assert ends == pytest.approx([0.010, 0.020])


def test_a_repository_serves_its_latest_versions_or_those_named() -> None:
    models = [ServedModel("m", COST, version=version) for version in (1, 2, 3)]
    assert [each.version for each in Repository(models).served] == [3]
    assert [each.version for each in Repository(models, latest=2).served] == [3, 2]
    named = Repository(models, specific={"m": [1, 2]})
    assert [each.version for each in named.served] == [2, 1]
    assert named.find("m", 3) is None
    assert named.find("n") is None
    with pytest.raises(InvalidSimulation, match="no version 7"):
        Repository(models, specific={"m": [7]})


def test_a_model_that_is_not_served_is_a_rejection() -> None:
    first = calls(0)[0]
    found = outcomes([Call(first.job, "other")], ServedModel("m", COST))
    assert isinstance(found[0], Rejected)
    assert found[0].why == "model not served"


def test_a_generating_batch_ends_with_its_longest_member() -> None:
    """Two answers of 2 and 5 tokens: the prompts' step, four more, and both are returned then."""
    model = ServedModel("m", PaddedGeneration(LinearCost(0.010)), BatchRule(8, max_delay_s=0.001))
    found = outcomes([Call(job(0, 0.0, 16, 2)), Call(job(1, 0.0, 20, 5)), Call(job(2, 0.005, 9, 1))], model)
    answered = {number: each for number, each in found.items() if isinstance(each, Answered)}
    ends = {number: round(1000 * each.finished_s) for number, each in answered.items()}
    assert ends == {0: 51, 1: 51, 2: 61}
    assert round(1000 * answered[0].first_s) == 11


@pytest.mark.parametrize(
    "wrong", [{"max_batch": 0}, {"preferred": (64,)}, {"preferred": (0,)}, {"max_delay_s": -1.0}]
)
def test_a_rule_that_cannot_be_is_said(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidSimulation):
        BatchRule(**wrong)  # type: ignore[arg-type]  # what is wrong with it is the point
