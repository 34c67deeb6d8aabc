"""The probe measures this machine, and says when another program was in the way."""

from __future__ import annotations

import sys

import pytest

from bandwidth_model import probe
from bandwidth_model.errors import ProbeFailed
from bandwidth_model.machine import OthersTime, last_level_cache_bytes, usable_cores
from bandwidth_model.probe import BUSY_SHARE, STEADY, Reading, from_json, probe_of, run_probe, to_json
from bandwidth_model.probing import array_bytes, sweep

MEMORY = Reading("memory", 1, 20e9, 19e9, 1.0)
FLOPS = Reading("multiply", 1, 1e11, 0.9e11, 1.0)


def test_this_machine_is_measured() -> None:
    readings = list(run_probe())
    found = probe_of(readings)
    counts = [each.threads for each in readings if each.of == "memory"]
    assert counts[0] == 1
    assert counts[-1] <= usable_cores()
    assert all(1e8 < rate < 1e13 for rate in found.read_bytes_per_s.values())
    assert 1e8 < found.flops_per_s < 1e14
    assert from_json(to_json(readings)) == readings
    if found.cache:
        assert 0 < found.cache.nbytes < last_level_cache_bytes()


def test_arrays_are_larger_than_any_cache() -> None:
    assert array_bytes() >= min(4 * last_level_cache_bytes(), array_bytes())
    assert array_bytes() > last_level_cache_bytes()


@pytest.mark.parametrize(
    ("reading", "disturbed"),
    [
        (MEMORY, False),
        (Reading("memory", 2, 20e9, 19e9, BUSY_SHARE - 0.01), True),
        (Reading("memory", 2, 20e9, 20e9 / STEADY / 1.01, 1.0), True),
    ],
)
def test_a_busy_machine_is_told(reading: Reading, disturbed: bool) -> None:
    assert reading.disturbed == disturbed


def test_more_threads_are_tried_until_they_gain_nothing() -> None:
    speeds = {1: 10.0, 2: 19.0, 3: 20.0, 4: 20.1, 6: 20.2, 8: 99.0}
    tried = [each.threads for each in sweep(list(speeds), lambda n: Reading("memory", n, speeds[n], 1, 1))]
    assert tried == [1, 2, 3, 4, 6]


@pytest.mark.parametrize("kept", [{}, {"fingerprint": "another"}, {"readings": 3}, {"fingerprint": None}])
def test_what_another_machine_kept_does_not_count(kept: dict[str, object]) -> None:
    assert from_json(kept) is None
    assert from_json({**to_json([MEMORY]), "readings": [{"of": "memory"}]}) is None


def test_half_a_probe_is_none() -> None:
    with pytest.raises(ProbeFailed, match="no reading"):
        probe_of([MEMORY])
    assert probe_of([MEMORY, FLOPS]).at(1) == 20e9


def test_a_measurement_that_dies_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(ProbeFailed, match="ended early"):
        list(run_probe())
    assert probe.fingerprint() == probe.fingerprint()


def test_others_take_no_more_than_there_is() -> None:
    watch = OthersTime()
    assert watch() == 0.0
    assert watch() >= 0.0
