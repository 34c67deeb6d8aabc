"""The pairs that guards are judged by: enough of each kind, and committed before any guard."""

from __future__ import annotations

from collections import Counter

from tests.router.cache.pair_files import lookalikes, paraphrases

KINDS = {"negation", "number", "unit", "entity", "antonym", "language"}


def test_there_are_enough_pairs_of_every_kind() -> None:
    counts = Counter(pair.kind for pair in lookalikes())

    assert set(counts) == KINDS
    assert min(counts.values()) >= 30
    assert sum(counts.values()) >= 200
    assert len(paraphrases()) >= 100


def test_no_pair_stands_twice() -> None:
    pairs = [frozenset((pair.one, pair.other)) for pair in (*lookalikes(), *paraphrases())]

    assert len(set(pairs)) == len(pairs)
    assert all(len(pair) == 2 for pair in pairs)
