"""Studies: all are found, say the same again for a seed, and keep what was measured when stopped."""

from __future__ import annotations

import importlib
import json
import pkgutil
from itertools import pairwise

import pytest

from router.errors import InvalidSimulation
from router.simcloud import studies
from router.simcloud.capacity import largest_rate
from router.simcloud.studies import paging
from router.simcloud.studies.registry import all_studies, find_study
from router.simcloud.studies.table import Table

MODULES = [
    importlib.import_module(f"{studies.__name__}.{m.name}") for m in pkgutil.iter_modules(studies.__path__)
]
STUDIES = [module for module in MODULES if hasattr(module, "SUMMARY")]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """REQUESTS (or TASKS) is how many each point of a study serves; few are enough to see that it runs."""
    for module in STUDIES:
        for constant, enough in (("REQUESTS", 12), ("TASKS", 2)):
            if hasattr(module, constant):
                monkeypatch.setattr(module, constant, enough)


def tables(name: str, seed: int = 0) -> list[Table]:
    return list(find_study(name).tables(seed, lambda share: None))


def test_every_module_is_found_by_its_name() -> None:
    assert {module.NAME for module in STUDIES} == set(all_studies())
    assert {"batching", "admission", "block-size", "paging", "schedulers", "preemption", "capacity"} <= set(
        all_studies()
    )
    assert all(study.summary for study in all_studies().values())


@pytest.mark.parametrize("name", sorted(all_studies()))
def test_the_same_seed_gives_the_same_json(name: str) -> None:
    """And what was measured comes row by row, with the share that is done."""
    shares: list[float] = []
    partial = list(find_study(name).tables(1, shares.append))
    assert len(partial) > 3
    for less, more in pairwise(partial):
        assert more.rows[: len(less.rows)] == less.rows
    first = partial[-1]
    second = tables(name, 1)[-1]
    assert json.dumps(first.as_dict()) == json.dumps(second.as_dict())
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    assert first.rows
    assert len({tuple(row) for row in first.rows}) == 1
    assert first.series
    assert all(len(line.x) == len(line.y) > 0 for line in first.series)
    assert first.notes
    assert first.published


def test_worked_rows_are_exact() -> None:
    rows = tables("batching")[-1].rows
    assert [round(float(row["tokens/s"]), 1) for row in rows[:2]] == [429.5, 756.3]
    cases = next(iter(find_study("paging").tables(0, lambda share: None))).rows
    assert len(cases) == len(paging.CASES)
    assert [(round(float(c["GB"]), 1), round(float(c["paged GB"]), 1)) for c in cases] == [
        (104.9, 6.6),
        (209.7, 26.2),
        (838.9, 102.4),
    ]


def test_an_unknown_study_is_told_the_nearest() -> None:
    with pytest.raises(InvalidSimulation, match="Did you mean capacity"):
        find_study("capacty")


@pytest.mark.parametrize("limit", [0.3, 8.0, 77.7])
def test_bisection_finds_the_largest_rate(limit: float) -> None:
    found = largest_rate(lambda rate: rate <= limit, 8.0)
    assert found <= limit
    assert found == pytest.approx(limit, rel=0.03)


def test_a_level_that_no_rate_or_every_rate_meets() -> None:
    assert largest_rate(lambda rate: False, 8.0) == 0.0
    assert largest_rate(lambda rate: True, 8.0) == 8.0 * 1024
