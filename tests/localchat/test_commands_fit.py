"""``localchat fit``: every model gets a verdict; only what fits gets a speed; more memory never fits less."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bandwidth_model.catalogue import known_models
from tests.localchat.command_line import run, spawn
from tests.localchat.small_models import small_gguf

CARD = ("--device", "RTX 4090")
STATUSES = {"fits", "fits with a smaller context", "does not fit"}


@pytest.fixture(autouse=True)
def only_the_catalogue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localchat.weights.catalog.installed_default", lambda: None)


def fitted(home: Path, *words: str) -> list[dict[str, Any]]:
    outcome = run(home, "fit", *words, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    found = json.loads(outcome.out)
    assert isinstance(found, list)
    return found


def test_every_well_known_model_gets_a_verdict(tmp_path: Path) -> None:
    found = fitted(tmp_path, *CARD)
    assert {each["model"].partition(":")[0] for each in found} == {model.slug for model in known_models()}
    assert {each["status"] for each in found} <= STATUSES
    for each in found:
        assert each["needed_bytes"] >= each["file_bytes"] > 0
        assert (each["decode_tokens_per_s"] is None) == (each["status"] == "does not fit")
        assert each["fits"] == (each["status"] == "fits") == (each["needed_bytes"] <= each["available_bytes"])
        if each["fits"]:
            assert each["low"] < each["decode_tokens_per_s"] < each["high"]


def test_more_memory_and_less_context_never_fit_less(tmp_path: Path) -> None:
    def fitting(*words: str) -> set[str]:
        return {each["model"] for each in fitted(tmp_path, *words) if each["fits"]}

    sizes = [fitting(*CARD, "--memory", size) for size in ("4", "12", "24", "96")]
    assert all(small < large for small, large in pairwise(sizes))
    assert fitting(*CARD, "--context", "32768") <= fitting(*CARD, "--context", "1024")
    assert fitting(*CARD) <= fitting(*CARD, "--kv-type", "q4_0")
    assert fitting(*CARD) < fitting(*CARD, "--device", "Ryzen 9 7950X")


def test_one_quantization_for_all(tmp_path: Path) -> None:
    found = fitted(tmp_path, *CARD, "--quantization", "q6_k")
    assert [each["quantization"] for each in found] == ["Q6_K"] * len(known_models())
    outcome = run(tmp_path, "fit", "--quantization", "q9")
    assert (outcome.code, "There are F16, Q8_0" in outcome.err) == (2, True)


def test_the_table_is_for_people(tmp_path: Path) -> None:
    lines = run(tmp_path, "fit", "llama", *CARD).out.splitlines()
    assert lines[0] == "On RTX 4090"
    assert lines[3].split()[:5] == ["MODEL", "QUANT", "SIZE", "NEEDS", "VERDICT"]
    assert any("llama-3.1-8b:q4_k_m" in line and "  fits  " in line for line in lines)
    assert any("llama-3.3-70b:q8_0" in line and "  does not fit  " in line for line in lines)
    smaller = run(tmp_path, "fit", "llama-2-13b:q8_0", *CARD, "--memory", "16").out
    assert "  fits with " in smaller
    assert "80 % of measured speeds lie between" in smaller


def test_files_on_this_machine_come_first_and_broken_ones_are_named(tmp_path: Path) -> None:
    models = tmp_path / "home/.lmstudio/models"
    models.mkdir(parents=True)
    (models / "mine.gguf").write_bytes(small_gguf())
    (models / "broken\x1b.gguf").write_bytes(b"no model")
    outcome = run(tmp_path, "fit", *CARD, "--json")
    first = json.loads(outcome.out)[0]
    assert (outcome.code, first["model"], first["on_this_machine"]) == (0, "mine", True)
    assert outcome.err.startswith("Left out: ")
    assert "\x1b" not in outcome.err
    assert "mine +" in run(tmp_path, "fit", "mine", *CARD).out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--context", "some"], 2, "--context 'some' is no whole number"),
        (["--device", "toaster"], 2, "`localchat devices` lists all."),
        (["nonesuch", *CARD], 1, "No model has the words 'nonesuch'. `localchat fit` lists all."),
    ],
)
def test_wrong_use_is_one_line(tmp_path: Path, words: list[str], code: int, said: str) -> None:
    outcome = run(tmp_path, "fit", *words)
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (code, "", 1)
    assert said in outcome.err


def test_nothing_heavy_is_needed(tmp_path: Path) -> None:
    script = """
import sys
from localchat.cli import main
code = main(["fit", "--device", "RTX 4090"])
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""
    outcome = spawn(tmp_path, script=script)
    assert outcome.code == 0
    assert not set(outcome.err.split()) & {"numpy", "httpx", "textual", "llama_cpp"}
