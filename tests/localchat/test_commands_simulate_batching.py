"""``localchat simulate batching``, and what ``simulate run`` adds to an engine."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from localchat.cli import main

BATCHING = ["simulate", "batching", "--linear", "1.2,0.13", "--count", "2000"]


def batching(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main([*BATCHING, "--json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_json_has_what_scripts_read(capsys: pytest.CaptureFixture[str]) -> None:
    found = batching(capsys, "--rate", "3000", "--slo", "10")
    assert found["answered"] == 2000
    assert 0 < found["latency_s"]["p50"] <= found["latency_s"]["p99"]
    assert found["requests_per_s"] == pytest.approx(3000, rel=0.1)
    assert 1 < found["mean_batch"] <= 32
    assert sum(int(size) * times for size, times in found["batches"].items()) == 2000
    assert 0 < found["utilisation"] <= 1
    assert found["level_attainment"] == 1
    assert found["cpu_s"] > 0


def test_published_ceilings(capsys: pytest.CaptureFixture[str]) -> None:
    flood = ["--rate", "1e9", "--count", "3200"]
    assert batching(capsys, *flood, "--max-batch", "1")["requests_per_s"] == pytest.approx(752, abs=0.5)
    full = ["--max-queue-delay", "1", "--preferred", "32"]
    assert batching(capsys, *flood, *full)["requests_per_s"] == pytest.approx(5970, abs=0.5)


def test_queue_rules(capsys: pytest.CaptureFixture[str]) -> None:
    crowded = ["--rate", "5000", "--max-batch", "4"]
    limited = batching(capsys, *crowded, "--queue-limit", "8")
    assert limited["rejected"]["queue full"] + limited["answered"] == 2000
    late = batching(capsys, *crowded, "--timeout", "5", "--urgent", "0.2")
    assert late["rejected"]["waited too long"] > 0
    assert batching(capsys, *crowded, "--timeout", "5", "--on-timeout", "defer")["answered"] == 2000


def test_a_table_and_a_line_for_each_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "each.csv"
    command = ["simulate", "batching", "--model", "bert-base", "--model", "bert-large:2", "--count", "50"]
    assert main([*command, "--instances", "2", "--per-request", str(target)]) == 0
    assert "mean batch" in capsys.readouterr().out
    lines = list(csv.DictReader(target.read_text(encoding="utf-8").splitlines()))
    assert len(lines) == 50
    assert {(line["model"], line["version"]) for line in lines} == {("bert-base", "1"), ("bert-large", "2")}


def test_generation_in_whole_batches(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["simulate", "batching", "--model", "llama-3-8b", "--rate", "5", "--count", "100"]
    assert main([*command, "--max-batch", "8", "--output-tokens", "50"]) == 0
    assert "output tokens/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--linear", "fast"], "is not A,B"),
        (["--linear", "1", "--model", "bert-base:new"], "version is a number"),
        (["--max-batch", "0"], "Give at least 1"),
        (["--preferred", "64"], "Preferred batch sizes"),
        (["--preferred", "four"], "no list of batch sizes"),
        (["--model", "bert-bass"], "Did you mean bert-base"),
        (["--rate", "0"], "--rate 0: give a number above 0"),
        (["--tokens", "0"], "at least 1"),
        (["--gpu", "abacus"], "GPUs with measured efficiencies"),
        (["--instances", "0"], "no instance"),
    ],
)
def test_what_cannot_be_is_said(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "batching", *arguments]) == 2
    assert said in capsys.readouterr().err


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    path = tmp_path / "requests.csv"
    lines = [f"{number * 0.05},{100 + number},{20 + number}\n" for number in range(40)]
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(lines), encoding="utf-8")
    return path


def served(requests: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["simulate", "run", "--requests", str(requests), "--json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_additions_to_a_run(requests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = served(requests, capsys)
    serial = served(requests, capsys, "--host-us", "500", "--serial-host")
    beside = served(requests, capsys, "--host-us", "500", "--tokenise-us", "1")
    drafts = served(requests, capsys, "--speculate", "3", "--draft", "llama-3.2-1b", "--acceptance", "0.8")
    assert plain["tpot_s"]["mean"] <= beside["tpot_s"]["mean"] < serial["tpot_s"]["mean"]
    assert drafts["tpot_s"]["mean"] < 0.7 * plain["tpot_s"]["mean"]
    assert drafts["output_tokens"] == plain["output_tokens"]
    assert "valid_answers" not in plain


def test_valid_answers(requests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    free = served(requests, capsys, "--retry-rate", "0.3")
    masked = served(requests, capsys, "--constrained", "--mask-us", "100", "--mask-cores", "2")
    assert free["valid_answers"]["valid"] == masked["valid_answers"]["valid"] == 40
    assert free["completed"] > masked["completed"] == 40
    assert free["valid_answers"]["tries_per_answer"] > masked["valid_answers"]["tries_per_answer"] == 1
    assert free["valid_answers"]["valid_per_usd"] > 0
    assert main(["simulate", "run", "--requests", str(requests), "--constrained"]) == 0
    assert "valid answers/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--constrained", "--retry-rate", "0.1"], "always valid"),
        (["--retry-rate", "1"], "below 1"),
        (["--draft", "llama-3.2-1b"], "Give both"),
        (["--speculate", "0"], "at least 1 draft"),
        (["--speculate", "2", "--policy", "static"], "pads its batches"),
        (["--host-us", "-1"], "0 or more"),
    ],
)
def test_what_cannot_be_added_is_said(
    requests: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "run", "--requests", str(requests), *arguments]) == 2
    assert said in capsys.readouterr().err
