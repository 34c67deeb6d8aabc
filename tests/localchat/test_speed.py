"""What is known of this machine: the best of it answers, and nothing stale, broken or single decides."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bandwidth_model.calibrate import Run, run_of
from bandwidth_model.machine import usable_cores
from bandwidth_model.predict import Conditions, predict
from bandwidth_model.probe import Reading
from bandwidth_model.shape import ModelShape, plain_shape
from localchat import speed as speed_module
from localchat.calibration import KEPT, CalibrationFile
from localchat.errors import LocalchatError
from localchat.paths import Paths
from localchat.speed import MachineSpeed

MODEL = plain_shape("mine", parameters=1e8, bits_per_weight=4.5, layers=10, quantization="Q4_0")
OTHER = plain_shape("other", parameters=4e8, bits_per_weight=4.5, layers=10, quantization="Q4_0")
READINGS = [
    Reading("memory", 1, 20e9, 19e9, 1.0),
    Reading("memory", usable_cores(), 30e9, 29e9, 1.0),
    Reading("multiply", 1, 1e11, 1e11, 1.0),
    Reading("cache", 1, 60e9, 60e9, 1.0, 1 << 20),
]
THREADS = usable_cores()


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")


@pytest.fixture(autouse=True)
def unknown_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed_module, "this_device", lambda: None)


def run(shape: ModelShape, tokens_per_s: float, threads: int = THREADS) -> Run:
    return run_of(shape, threads=threads, depth=0, token_s=1 / tokens_per_s)


def rate(speed: MachineSpeed, shape: ModelShape = MODEL) -> float:
    return predict(shape, speed.rates(THREADS, shape), Conditions()).decode_tokens_per_s


def test_each_better_source_takes_over(paths: Paths) -> None:
    speed = MachineSpeed(paths)
    assert (speed.rates().tier, speed.rates().device) == ("datasheet", "a typical processor")
    assert speed.rates().guessed
    assert "device table" in speed.basis
    speed.keep(READINGS)
    assert (speed.rates().tier, speed.rates().guessed, speed.basis) == ("probed", False, "")
    speed.learn([run(OTHER, 50)], "calibrate")
    assert speed.rates().tier == "calibrated"
    assert MachineSpeed(paths).rates() == speed.rates()


def test_a_reply_counts_for_its_own_model_whatever_is_known_otherwise(paths: Paths) -> None:
    speed = MachineSpeed(paths)
    before = rate(speed, OTHER)
    speed.learn([run(MODEL, 123.0)], "reply")
    assert rate(speed) == pytest.approx(123.0, rel=0.03)
    assert speed.rates(THREADS, MODEL).tier == "calibrated"
    assert not speed.rates(THREADS, MODEL).guessed  # its own reply was on this machine
    assert speed.rates(THREADS, OTHER).guessed
    assert rate(speed, OTHER) == before


def test_one_bad_measurement_does_not_spoil_it(paths: Paths) -> None:
    speed = MachineSpeed(paths)
    for measured in (100, 100, 3, 100):
        speed.learn([run(MODEL, measured)], "reply")
    assert rate(speed) == pytest.approx(100, rel=0.03)
    for _ in range(KEPT):  # but a change that stays is followed
        speed.learn([run(MODEL, 60)], "reply")
    assert rate(speed) == pytest.approx(60, rel=0.03)
    assert len(speed.record().entries) == 1


def test_a_new_build_forgets_what_the_old_one_taught(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    speed = MachineSpeed(paths)
    speed.learn([run(MODEL, 100)], "calibrate")
    other_cache = MachineSpeed(paths, kv_type="q8_0")
    other_cache.learn([run(MODEL, 80)], "calibrate")
    assert rate(speed) == pytest.approx(100, rel=0.03)
    monkeypatch.setattr(speed_module, "installed_build", lambda: "another")
    assert not speed.record().entries
    speed.learn([run(MODEL, 200)], "calibrate")
    monkeypatch.undo()
    assert not MachineSpeed(paths).record().entries


def test_on_battery_it_is_another_machine(paths: Paths, monkeypatch: pytest.MonkeyPatch) -> None:
    speed = MachineSpeed(paths)
    speed.learn([run(MODEL, 100)], "calibrate")
    monkeypatch.setattr(speed_module, "on_battery", lambda: True)
    assert not speed.record().entries


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"version": 1}', '{"version": 1, "records": 3}', "\x00", '{"version": 99}']
)
def test_a_broken_record_is_an_empty_one(paths: Paths, content: str) -> None:
    paths.data.mkdir()
    (paths.data / "calibration.json").write_text(content)
    paths.cache.mkdir()
    (paths.cache / "probe.json").write_text(content)
    speed = MachineSpeed(paths)
    assert (speed.record().entries, speed.readings()) == ([], None)
    speed.learn([run(MODEL, 100)], "calibrate")
    assert rate(speed) == pytest.approx(100, rel=0.03)


def test_an_entry_that_is_none_is_an_empty_record(paths: Paths) -> None:
    file = CalibrationFile(paths.data / "calibration.json")
    file.add("a|b", [run(MODEL, 100)], "calibrate")
    text = (paths.data / "calibration.json").read_text()
    (paths.data / "calibration.json").write_text(text.replace('"seconds"', '"minutes"'))
    assert not file.record("a|b").entries


def test_where_it_cannot_be_written_one_line_says_so(paths: Paths) -> None:
    paths.data.write_text("a file where the folder should be")
    paths.cache.write_text("likewise")
    speed = MachineSpeed(paths)
    with pytest.raises(LocalchatError, match="cannot be written"):
        speed.learn([run(MODEL, 100)], "calibrate")
    with pytest.raises(LocalchatError, match="cannot be written"):
        speed.keep(READINGS)


def test_the_nearest_thread_count_answers_for_others(paths: Paths) -> None:
    speed = MachineSpeed(paths)
    speed.learn([run(OTHER, 30, threads=1), run(OTHER, 80, threads=4)], "calibrate")
    assert speed.rates(3).threads == 4
    assert speed.rates(64).threads == 4
    assert speed.rates(2).threads == 1


def test_forgetting_is_complete(paths: Paths) -> None:
    speed = MachineSpeed(paths)
    speed.forget()
    speed.learn([replace(run(MODEL, 100), depth=3000.0)], "calibrate")
    speed.forget()
    assert not speed.record().entries
