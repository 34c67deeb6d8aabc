"""``localchat predict``: laws of its rows, one line for what cannot be, nothing heavy for a local file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bandwidth_model.devices import find_device
from bandwidth_model.rates import Rates, datasheet_rates
from localchat.speed import MachineSpeed
from tests.localchat.command_line import Outcome, run, spawn
from tests.localchat.hub_server import Hub, running_hub
from tests.localchat.small_models import CONTEXT, LAYERS, mlc_folder, part_name, small_gguf, split_gguf

PROCESSOR = ("--device", "Ryzen 9 7950X")
ROW_KEYS = {"depth", "threads", "decode_tokens_per_s", "low", "high", "prefill_tokens_per_s", "ttft_s"}


@pytest.fixture
def model(tmp_path: Path) -> str:
    path = tmp_path / "small.gguf"
    path.write_bytes(small_gguf())
    return str(path)


@pytest.fixture
def known_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine as if it were one of the table, with 8 cores."""

    def rates(self: MachineSpeed, threads: int | None = None, *_: object) -> Rates:
        return datasheet_rates(find_device("Ryzen 7 7700X"), threads=threads or 8)

    monkeypatch.setattr(MachineSpeed, "rates", rates)
    monkeypatch.setattr("localchat.hardware.usable_cores", lambda: 8)
    monkeypatch.setattr("localchat.hardware.available_bytes", lambda: 10**9)


def predicted(home: Path, *words: str) -> dict[str, Any]:
    outcome = run(home, "predict", *words, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    found = json.loads(outcome.out)
    assert isinstance(found, dict)
    return found


def refused(home: Path, *words: str) -> Outcome:
    outcome = run(home, "predict", *words)
    assert outcome.out == ""
    assert outcome.err.startswith("localchat: ")
    assert outcome.err.count("\n") == 1
    return outcome


class TestJson:
    def test_has_what_was_promised(self, tmp_path: Path, model: str) -> None:
        found = predicted(tmp_path, model, *PROCESSOR, "--depth", "0", "100", "--threads", "4")
        promised = {"model", "tier", "bytes_per_token", "kv_bytes_per_token", "memory", "rows"}
        assert promised <= set(found)
        assert {"needed_bytes", "available_bytes", "fits"} <= set(found["memory"])
        assert all(set(row) >= ROW_KEYS for row in found["rows"])
        assert (found["model"], found["tier"]) == ("small", "datasheet")
        assert found["kv_bytes_per_token"] == 2 * LAYERS * 32 * 2
        assert found["memory"]["fits"] is True
        assert [(row["depth"], row["threads"]) for row in found["rows"]] == [(0, 4), (100, 4)]

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
    @given(depths=st.lists(st.integers(0, CONTEXT - 1), min_size=1, max_size=5), threads=st.integers(1, 16))
    def test_rows_are_those_asked_for_and_deeper_is_never_faster(
        self, tmp_path: Path, model: str, depths: list[int], threads: int
    ) -> None:
        words = [*map(str, depths), "--threads", str(threads), str(17 - threads)]
        rows = predicted(tmp_path, model, *PROCESSOR, "--depth", *words)["rows"]
        asked = [(depth, count) for count in (threads, 17 - threads) for depth in depths]
        assert [(row["depth"], row["threads"]) for row in rows] == asked
        for row in rows:
            assert 0 < row["low"] < row["decode_tokens_per_s"] < row["high"]
            assert 0 < row["ttft_s"] < row["cold_ttft_s"]
        speeds = [row["decode_tokens_per_s"] for row in sorted(rows[: len(depths)], key=lambda r: r["depth"])]
        assert speeds == sorted(speeds, reverse=True)

    def test_a_longer_prompt_takes_longer_and_a_smaller_cache_less(self, tmp_path: Path, model: str) -> None:
        short, long = (
            predicted(tmp_path, model, *PROCESSOR, "--depth", "0", "--prompt-tokens", n)
            for n in ("10", "1000")
        )
        assert short["rows"][0]["ttft_s"] < long["rows"][0]["ttft_s"]
        wide, narrow = (predicted(tmp_path, model, *PROCESSOR, "--kv-type", kind) for kind in ("f16", "q8_0"))
        assert narrow["kv_bytes_per_token"] < wide["kv_bytes_per_token"]
        assert narrow["memory"]["needed_bytes"] < wide["memory"]["needed_bytes"]

    def test_depths_stay_within_the_context(self, tmp_path: Path, model: str) -> None:
        assert [row["depth"] for row in predicted(tmp_path, model, *PROCESSOR)["rows"]] == [0, 1024]
        found = predicted(tmp_path, model, *PROCESSOR, "--context", "800")
        assert ([row["depth"] for row in found["rows"]], found["memory"]["context"]) == ([0], 800)


class TestModels:
    def test_a_folder_of_mlc(self, tmp_path: Path) -> None:
        found = predicted(tmp_path, str(mlc_folder(tmp_path / "Small-q4f16_1-MLC")), *PROCESSOR)
        assert (found["model"], found["inputs"]["quantization"]) == ("Small-q4f16_1-MLC", "q4f16_1")

    def test_any_part_of_a_split_file(self, tmp_path: Path, model: str) -> None:
        for number, content in enumerate(split_gguf(3), 1):
            (tmp_path / part_name("big", number, 3)).write_bytes(content)
        found = predicted(tmp_path, str(tmp_path / part_name("big", 2, 3)), *PROCESSOR)
        assert found["bytes_per_token"] == predicted(tmp_path, model, *PROCESSOR)["bytes_per_token"]

    def test_a_well_known_model_before_it_is_here(self, tmp_path: Path) -> None:
        found = predicted(tmp_path, "Llama-3.1-8B:q8_0", "--device", "rtx 4090")
        assert found["model"] == "llama-3.1-8b:q8_0"
        assert found["rows"][0]["threads"] is None

    def test_a_remote_header(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str) -> None:
        for name in [n for n in os.environ if n.lower().endswith("_proxy") or n.startswith("HF_")]:
            monkeypatch.delenv(name)
        with running_hub(Hub(files={"owner/repo/small.gguf": small_gguf()})) as hub:
            monkeypatch.setenv("HF_ENDPOINT", hub.url)
            remote = predicted(tmp_path, "hf:owner/repo/small.gguf", *PROCESSOR)
        assert remote == predicted(tmp_path, model, *PROCESSOR)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            (
                b"<!doctype html>",
                "not a GGUF file: it begins with b'<!do'. Choose a GGUF file or an MLC folder",
            ),
            (b"", "is truncated: it has 0 bytes"),
            (small_gguf()[:200], "is truncated: it has 200 bytes"),
            (small_gguf()[:-1], "ends inside its tensor data"),
            (b"GGUF\x03\0\0\0" + bytes(16), "holds no weights that a token would read"),
        ],
    )
    def test_broken_files(self, tmp_path: Path, content: bytes, said: str) -> None:
        path = tmp_path / "broken.gguf"
        path.write_bytes(content)
        outcome = refused(tmp_path, str(path), *PROCESSOR)
        assert (outcome.code, said in outcome.err) == (1, True), outcome.err

    def test_places_that_are_no_files(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe.gguf")
        assert "is no regular file" in refused(tmp_path, str(tmp_path / "pipe.gguf"), *PROCESSOR).err
        assert "is a folder without mlc-chat-config.json" in refused(tmp_path, str(tmp_path), *PROCESSOR).err
        assert "There is no file" in refused(tmp_path, str(tmp_path / "none.gguf"), *PROCESSOR).err
        assert "No weights are called 'nonesuch'" in refused(tmp_path, "nonesuch", *PROCESSOR).err

    def test_names_from_strangers_do_not_steer_the_terminal(self, tmp_path: Path) -> None:
        path = tmp_path / "a\x1b[31m\nb.gguf"
        path.write_bytes(small_gguf())
        outcome = run(tmp_path, "predict", str(path), *PROCESSOR)
        assert (outcome.code, "\x1b" in outcome.out) == (0, False)
        path.write_bytes(b"no model")
        assert "\x1b" not in refused(tmp_path, str(path), *PROCESSOR).err


class TestWrongUse:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--depth", "-1"], "--depth '-1' is no whole number"),
            (["--depth", "many"], "--depth 'many' is no whole number"),
            (["--depth", "4096"], "A depth of 4,096 is beyond the context of 4,096 tokens"),
            (["--depth", "9" * 30], "is no whole number"),
            (["--depth", "99999999"], "is not between 0 and 16,777,216"),
            (["--threads", "0"], "--threads 0 is not between 1 and 512"),
            (["--threads", "17"], "17 threads are more than the 16 cores of Ryzen 9 7950X"),
            (["--kv-type", "q9"], "--kv-type: 'q9' is no type of a KV cache; F16, Q8_0 and Q4_0 are."),
            (["--context", "0"], "--context 0 is not between 1"),
            (["--prompt-tokens", "0"], "--prompt-tokens 0 is not between 1"),
            (["--memory", "much"], "--memory 'much' is no number"),
            (["--memory", "nan"], "--memory nan is not between 0"),
            (["--memory", "8", "--memory", "8"], "--memory is given 2 times for 1 device"),
            (["--bandwidth", "60"], "--bandwidth describes a device of its own"),
        ],
    )
    def test_gets_one_clear_line(self, tmp_path: Path, model: str, words: list[str], said: str) -> None:
        outcome = run(tmp_path, "predict", model, *PROCESSOR, *words)
        assert (outcome.code, outcome.out) == (2, "")
        assert said in outcome.err.splitlines()[-1]

    @pytest.mark.parametrize("name", ["toaster", "H100", "rtx4090", ""])
    def test_unknown_devices_are_told_where_the_names_are(
        self, tmp_path: Path, model: str, name: str
    ) -> None:
        outcome = refused(tmp_path, model, "--device", name)
        assert (outcome.code, outcome.err.endswith("`localchat devices` lists all.\n")) == (2, True)

    def test_a_bandwidth_needs_a_memory(self, tmp_path: Path, model: str) -> None:
        assert "Give that too: --memory GB" in refused(tmp_path, model, "--bandwidth", "60").err
        found = predicted(tmp_path, model, "--bandwidth", "60", "--memory", "8", "--depth", "0")
        assert found["rows"][0]["decode_tokens_per_s"] == pytest.approx(0.7 * 60e9 / found["bytes_per_token"])


class TestText:
    def test_says_certainty_interval_inputs_and_what_verifies_it(
        self, tmp_path: Path, model: str, known_speed: None
    ) -> None:
        outcome = run(tmp_path, "predict", model)
        assert outcome.code == 0
        assert outcome.out.startswith("small on this machine\n")
        for words in (
            "FITS: ",
            "datasheet: ",
            "80 % of measured speeds lie between",
            "weights read for a token (Q8_0",
            f"localchat bench {model}\n",
            "localchat probe (10 s), or localchat calibrate (60 s)",
        ):
            assert words in outcome.out
        assert "\x1b" not in outcome.out

    def test_what_does_not_fit_says_what_to_change(self, tmp_path: Path) -> None:
        out = run(tmp_path, "predict", "llama-3.3-70b", "--device", "RTX 4090").out
        assert re.search(r"DOES NOT FIT: .* exceed the 24.7 GB available", out)
        assert "or split this one over several devices" in out
        assert "with enough memory the speeds above would hold" in out

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (
                ["--device", "RTX 4060 Ti"],
                "assuming 8 GiB, the smallest of 8 GiB, 16 GiB (--memory says which)",
            ),
            (["--device", "RTX 4060 Ti", "--memory", "16"], "16 GiB less what stays free for others"),
            (["--device", "Ryzen 9 7950X"], "assuming 128 GiB, the most it takes"),
            (["--device", "RTX 4090"], "24 GiB less what stays free for others"),
            (["--bandwidth", "60", "--memory", "8"], "the rule of thumb, 0.70 x bandwidth / bytes"),
        ],
    )
    def test_says_which_memory_is_assumed(
        self, tmp_path: Path, model: str, words: list[str], said: str
    ) -> None:
        assert said in run(tmp_path, "predict", model, *words).out


class TestSeveralDevices:
    def test_a_card_and_the_memory_of_this_machine(
        self, tmp_path: Path, known_speed: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("localchat.hardware.available_bytes", lambda: 64 * 10**9)
        words = ("llama-3.3-70b", "--device", "RTX 4090", "--device", "this", "--context", "8192")
        found = predicted(tmp_path, *words)
        card, rest = found["memory"]["devices"]
        assert (card["name"], rest["name"]) == ("RTX 4090", "this machine")
        assert card["layers"] + rest["layers"] == 80
        assert found["memory"]["fits"] is True
        assert found["memory"]["needed_bytes"] == card["needed_bytes"] + rest["needed_bytes"]
        assert found["rows"][0]["threads"] == 8
        out = run(tmp_path, "predict", *words).out
        assert f"RTX 4090: {card['layers']} layers, " in out
        assert f"this machine: {rest['layers']} layers, " in out

    def test_a_second_device_never_slows_what_fits_the_first(self, tmp_path: Path, model: str) -> None:
        one = predicted(tmp_path, model, "--device", "RTX 4090")
        two = predicted(tmp_path, model, "--device", "RTX 4090", *PROCESSOR)
        assert [device["layers"] for device in two["memory"]["devices"]] == [LAYERS, 0]
        assert two["rows"][0]["decode_tokens_per_s"] == one["rows"][0]["decode_tokens_per_s"]


class TestThisMachine:
    def test_rests_on_what_is_known_of_it(self, tmp_path: Path, model: str, known_speed: None) -> None:
        found = predicted(tmp_path, model, "--threads", "2")
        assert (found["rows"][0]["threads"], found["memory"]["available_bytes"]) == (2, 10**9)
        assert "8 cores of this machine" in refused(tmp_path, model, "--threads", "9").err


def test_a_local_file_needs_nothing_heavy(tmp_path: Path, model: str) -> None:
    script = f"""
import sys
from localchat.cli import main
code = main(["predict", {model!r}, "--device", "RTX 4090"])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
    outcome = spawn(tmp_path, script=script)
    assert outcome.code == 0, outcome.err
    loaded = set(outcome.err.split())
    assert "bandwidth_model.gguf" in loaded
    assert not loaded & {"numpy", "httpx", "textual", "llama_cpp", "sqlite3", "asyncio", "jinja2"}
