"""Studies of the fleet say the same for the same seed, with rows and lines to draw."""

from __future__ import annotations

import pytest

from router.simcloud.studies import agents, balancing, disaggregation, lora, multiplexing

STUDIES = {module.NAME: module for module in (balancing, disaggregation, lora, multiplexing, agents)}


@pytest.mark.parametrize("name", STUDIES)
def test_the_same_seed_says_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = STUDIES[name]
    small = {"REQUESTS": 20, "TASKS": 4, "RATES": (1.0, 2.0), "COUNTS": (1, 3)}
    for constant, value in small.items():
        monkeypatch.setattr(study, constant, value, raising=False)
    shares: list[float] = []
    first = study.run(1, shares.append)
    assert first == study.run(1, shares.append)
    assert first.rows
    assert all(len(line.x) == len(line.y) == 2 for line in first.series)
    assert shares[-1] == 1.0
