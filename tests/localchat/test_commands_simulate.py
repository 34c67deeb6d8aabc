"""``localchat simulate run``: figures for scripts, clear errors for everybody."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from localchat.cli import main

REQUESTS = "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(
    f"{number * 0.1},{100 + number},{20 + number}\n" for number in range(20)
)


@pytest.fixture
def requests(tmp_path: Path) -> Path:
    path = tmp_path / "requests.csv"
    path.write_text(REQUESTS, encoding="utf-8")
    return path


def test_json_has_what_scripts_read(requests: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "run", "--requests", str(requests), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    for latency in ("ttft_s", "tpot_s", "e2e_s"):
        assert 0 < found[latency]["p50"] <= found[latency]["p90"] <= found[latency]["p99"]
        assert found[latency]["mean"] > 0
    assert (found["completed"], found["rejected"], found["preemptions"]) == (20, 0, 0)
    assert found["output_tokens_per_s"] > 0
    assert 0 < found["kv_peak"] < 1
    assert found["mean_batch"] >= 1
    assert found["cpu_s"] > 0


@pytest.mark.parametrize("policy", ["static", "triton", "orca", "vllm-old", "vllm", "sarathi", "lightllm"])
def test_every_policy_serves_all(requests: Path, policy: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "run", "--requests", str(requests), "--policy", policy]) == 0
    assert "output tokens/s" in capsys.readouterr().out


def test_a_line_for_each_request(requests: Path, tmp_path: Path) -> None:
    target = tmp_path / "each.csv"
    command = [
        "simulate",
        "run",
        "--requests",
        str(requests),
        "--kv-blocks",
        "9",
        "--per-request",
        str(target),
    ]
    assert main(command) == 0
    lines = list(csv.DictReader(target.read_text(encoding="utf-8").splitlines()))
    assert len(lines) == 20
    assert {line["status"] for line in lines} == {"completed", "rejected"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--policy", "magic"], "There are:"),
        (["--gpu", "abacus"], "GPUs with measured efficiencies"),
        (["--model", "llama-3-8"], "Did you mean llama-3-8b"),
        (["--kv-blocks", "1"], "at least 2 blocks"),
        (["--max-num-seqs", "0"], "Give at least 1"),
        (["--max-num-seqs", "64", "--token-budget", "32"], "Raise --token-budget"),
        (["--model", "llama-3-70b"], "does not fit"),
        (["--kernels", "."], "holds no kernel tables"),
        (["--predict", "well"], "--predict"),
    ],
)
def test_what_cannot_be_is_said(
    requests: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "run", "--requests", str(requests), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_a_missing_file_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "run", "--requests", "nowhere.csv"]) == 2
    assert "nowhere.csv" in capsys.readouterr().err
