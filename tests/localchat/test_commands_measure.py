"""probe, calibrate, calibration and bench, as a person runs them, on the real engine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bandwidth_model.machine import usable_cores
from bandwidth_model.probe import Reading
from bandwidth_model.random_gguf import Geometry, write_random_gguf
from localchat import calibrating
from localchat.commands import probe as probe_command
from tests.localchat.command_line import run, spawn

TINY = Geometry(layers=2, hidden=256, feed_forward=256, heads=4, kv_heads=2, vocabulary=512, context=2048)
GROUPED = replace(TINY, heads=8, kv_heads=1)
CALM = Reading("memory", 1, 20e9, 19e9, 1.0)
FLOPS = Reading("multiply", 1, 1e11, 1e11, 1.0)
BUSY = Reading("memory", 2, 20e9, 19e9, 0.4)


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "tiny.gguf"
    write_random_gguf(path, TINY, "Q8_0")
    return str(path)


def probe(monkeypatch: pytest.MonkeyPatch, *readings: Reading) -> None:
    monkeypatch.setattr(probe_command, "run_probe", lambda: iter(readings))


class TestProbe:
    def test_what_it_measured_is_kept_and_used(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        probe(monkeypatch, CALM, FLOPS)
        assert "20.0 GB/s" in run(tmp_path, "probe").out
        probe(monkeypatch)
        found = json.loads(run(tmp_path, "probe", "--cached", "--json").out)
        assert [each["best"] for each in found["readings"]] == [20e9, 1e11]
        assert json.loads(run(tmp_path, "predict", "default", "--json").out)["tier"] == "probed"

    def test_a_busy_machine_is_told_and_not_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        probe(monkeypatch, CALM, BUSY, FLOPS)
        outcome = run(tmp_path, "probe")
        assert outcome.code == 0
        assert "Another program was running" in outcome.out
        assert not list(tmp_path.rglob("probe.json"))


class TestBench:
    def test_each_row_is_measured_and_predicted(self, tmp_path: Path, model: str) -> None:
        words = ["bench", model, "--depths", "0", "700", "--threads", "1", "--tokens", "10", "--json"]
        found = json.loads(spawn(tmp_path, *words).out)
        assert set(found) == {"machine", "rows"}
        assert [(row["depth"], row["threads"]) for row in found["rows"]] == [(0, 1), (700, 1)]
        for row in found["rows"]:
            measured, predicted = row["measured_decode_tokens_per_s"], row["predicted_decode_tokens_per_s"]
            assert row["error_percent"] == pytest.approx(100 * (predicted / measured - 1), abs=0.1)
            assert min(row["measured_prefill_tokens_per_s"], row["predicted_prefill_tokens_per_s"]) > 0
            assert (row["model"], row["engine"]) == ("tiny", "llama_cpp")

    def test_people_get_a_table_a_chart_and_a_picture(self, tmp_path: Path, model: str) -> None:
        words = ["bench", model, "--depths", "0", "--tokens", "5", "--plot", str(tmp_path / "p.svg")]
        outcome = spawn(tmp_path, *words)
        assert outcome.code == 0, outcome.err
        assert "predicted" in outcome.out
        assert "│" in outcome.out
        assert "localchat probe" in outcome.out
        assert (tmp_path / "p.svg").read_text().startswith("<?xml")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--plot", "p.jpg"], "neither a .png nor a .svg"),
            (["--plot", "nowhere/p.png"], "no folder"),
            (["--threads", "400"], "more than the"),
            (["--depths", "x"], "no number of tokens"),
            (["nonesuch"], "No weights are called"),
        ],
    )
    def test_wrong_use_is_told_before_anything_runs(
        self, tmp_path: Path, words: list[str], said: str
    ) -> None:
        outcome = run(tmp_path, "bench", *words)
        assert outcome.code in (1, 2)
        assert said in outcome.err

    def test_a_depth_beyond_the_context_is_one_line(self, tmp_path: Path, model: str) -> None:
        outcome = spawn(tmp_path, "bench", model, "--depths", "9000", "--threads", "1")
        assert outcome.code == 1
        assert "9,000" in outcome.err
        assert "Traceback" not in outcome.err

    def test_a_file_that_is_no_model_is_one_line(self, tmp_path: Path) -> None:
        (tmp_path / "bad.gguf").write_bytes(b"GGUF nonsense")
        outcome = spawn(tmp_path, "bench", str(tmp_path / "bad.gguf"))
        assert outcome.code == 1
        assert outcome.err.count("\n") == 1, outcome.err


class TestCalibrate:
    def test_it_measures_fits_and_says_what_it_found(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The real engine and the real way, on files a thousandth of their size."""
        monkeypatch.setattr(calibrating, "WIDE", TINY)
        monkeypatch.setattr(calibrating, "NARROW", TINY)
        monkeypatch.setattr(calibrating, "ATTENDING", (GROUPED, TINY))
        monkeypatch.setattr(calibrating, "DEEP", 600)
        monkeypatch.setattr(calibrating, "QUANTIZATIONS", ("Q4_0", "Q8_0"))
        monkeypatch.setattr(calibrating, "MEASURING_S", 0.0)
        monkeypatch.setattr(calibrating, "BUSY_CORES", 99.0)
        outcome = run(tmp_path, "calibrate", "--json", "--threads", "1")
        assert outcome.code == 0, outcome.err
        found = json.loads(outcome.out)
        assert found["fitted"]["1"]["stream_bytes_per_s"]  # of files this small, not always each type's
        assert {row["depth"] for row in found["rows"]} >= {3.0, 603.0}
        assert {row["source"] for row in found["rows"]} == {"calibrate"}
        assert not list(tmp_path.rglob("*.gguf"))
        assert json.loads(run(tmp_path, "predict", "default", "--json", "--threads", "1").out)["tier"] == (
            "calibrated"
        )
        assert "µs a layer" in run(tmp_path, "calibration").out
        assert run(tmp_path, "calibration", "--forget").code == 0
        assert "localchat calibrate" in run(tmp_path, "calibration").err

    def test_a_machine_that_is_never_quiet_teaches_nothing(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(calibrating, "WIDE", TINY)
        monkeypatch.setattr(calibrating, "NARROW", TINY)
        monkeypatch.setattr(calibrating, "ATTENDING", (GROUPED, TINY))
        monkeypatch.setattr(calibrating, "DEEP", 600)
        monkeypatch.setattr(calibrating, "QUANTIZATIONS", ("Q8_0",))
        monkeypatch.setattr(calibrating, "MEASURING_S", 0.0)
        monkeypatch.setattr(calibrating, "BUSY_CORES", -1.0)
        outcome = run(tmp_path, "calibrate", "--threads", "1")
        assert outcome.code == 1
        assert "nothing was kept" in outcome.err
        assert not list(tmp_path.rglob("calibration.json"))

    def test_more_threads_than_cores_are_refused(self, tmp_path: Path) -> None:
        assert run(tmp_path, "calibrate", "--threads", str(usable_cores() + 1)).code == 2
