"""The datasheet tier on published runs, one device family left out, and the shipped coefficients."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from bandwidth_model.devices import devices
from bandwidth_model.rates import coefficients
from benchmarks.fit_datasheet import fitted
from benchmarks.left_out import Held, coverage_percent, median_and_p90
from benchmarks.peers import RULES, error_percent, llama_roofline
from benchmarks.scoreboard import SCOREBOARD, Run, runs

MEDIAN_GOAL, P90_GOAL = 7, 40  # percent
COVERAGE_GOAL = (75, 90)  # percent


@pytest.fixture(scope="module")
def published() -> list[Run]:
    return runs()


@pytest.fixture(scope="module")
def held(published: list[Run]) -> list[Held]:
    return fitted(published)[1]


def test_every_row_has_a_source_and_a_device_of_the_table(published: list[Run]) -> None:
    with SCOREBOARD.open(newline="", encoding="utf-8") as file:
        assert len(published) == len(list(csv.DictReader(file))) > 400
    names = {device.name for device in devices()}
    assert [run.named for run in published if run.device.name not in names] == []
    assert [run.named for run in published if not run.source] == []


def test_error_goals(held: list[Held]) -> None:
    median, p90 = median_and_p90(each.error_percent for each in held)
    assert median <= MEDIAN_GOAL
    assert p90 <= P90_GOAL


def test_the_interval_covers_what_it_says(held: list[Held]) -> None:
    assert COVERAGE_GOAL[0] <= coverage_percent(held) <= COVERAGE_GOAL[1]


def test_no_kind_of_silicon_pays_for_the_others(held: list[Held]) -> None:
    by_silicon = Counter(each.run.device.silicon for each in held)
    for silicon in ("gpu", "apple", "cpu"):
        some = [each for each in held if each.run.device.silicon == silicon]
        median, p90 = median_and_p90(each.error_percent for each in some)
        assert median <= 12, silicon
        assert p90 <= P90_GOAL, silicon
        assert coverage_percent(some) >= 70, silicon
        assert by_silicon[silicon] > 80


def test_ahead_of_the_peers(published: list[Run], held: list[Held]) -> None:
    ours, our_p90 = median_and_p90(each.error_percent for each in held)
    predictions = {name: [rule(run) for run in published] for name, rule in RULES.items()}
    predictions["llama-roofline"] = llama_roofline(published)
    for name, values in predictions.items():
        errors = [error_percent(value, run) for value, run in zip(values, published, strict=True)]
        median, p90 = median_and_p90(errors)
        assert ours < median / 2, name
        assert our_p90 < p90 / 2, name


def test_the_shipped_coefficients_are_those_of_the_fit(published: list[Run]) -> None:
    found, _ = fitted(published)
    for silicon, shipped in coefficients().items():
        for name in shipped.__slots__:
            expected = getattr(found[silicon], name)
            assert getattr(shipped, name) == pytest.approx(expected, rel=0.02, abs=1e-9), (silicon, name)


def test_rows_of_unknown_devices_and_models_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        "device,kind,peak_bw_GBps,model,quant,tg_tps,read_GB_per_tok\n"
        "Some card,gpu,500,some model,Q4_0,100,4\n"
        "RTX 4090,gpu,,llama-2-7b,Q4_0,150,3.7488\n"
        "No bandwidth,gpu,,llama-2-7b,Q4_0,150,3.7488\n"
        "RTX 4090,gpu,1008,llama-2-7b,Q4_0,150,\n"
    )
    unknown, known = runs(path)
    assert (unknown.device.bandwidth_bytes_per_s, unknown.shape.layers[0].attention) == (500e9, None)
    assert (known.device.name, len(known.shape.layers), known.depth) == ("RTX 4090", 32, 64)
