"""The study's workload and what must come out of it whatever the embedder."""

from __future__ import annotations

from router.cache.study import CITIES, PATTERNS, QUESTIONS, answer, lines_of, questions, table
from tests.router.cache.fakes import FakeEmbedder, FakeGuard


def test_the_workload_is_that_of_the_facts_and_reproducible() -> None:
    asked = questions(seed=3)

    assert len(asked) == QUESTIONS == 2000
    assert len({each.intent for each in asked}) <= 40 == (len(PATTERNS) + 1) * len(CITIES)
    assert asked == questions(seed=3) != questions(seed=4)
    assert all(1 <= answer(each.intent) <= lines_of(each.intent[1]) for each in asked)


def test_repeats_are_never_wrong_and_a_text_of_its_own_direction_never_hits() -> None:
    rows = {
        (row["policy"], row["threshold"], row["validator"]): row
        for row in table(FakeEmbedder(), FakeGuard(), 0.9).rows
    }

    exact = rows["exact", 1.0, "off"]
    assert exact["wrong"] == 0
    assert all(row["hits_percent"] == exact["hits_percent"] for row in rows.values())
