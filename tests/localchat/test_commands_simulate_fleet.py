"""``localchat simulate run`` with several replicas: each one's figures beside those of the whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localchat.cli import main

REQUESTS = "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(
    f"{number * 0.05},{200 + number},{20 + number}\n" for number in range(12)
)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    path = tmp_path / "requests.csv"
    path.write_text(REQUESTS, encoding="utf-8")
    return ["simulate", "run", "--requests", str(path)]


def found(words: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert main([*words, "--json"]) == 0
    answer: dict[str, object] = json.loads(capsys.readouterr().out)
    return answer


def test_each_replica_is_shown(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*run, "--replicas", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("replica"))
    assert [line.split()[:2] for line in lines[at + 1 : at + 4]] == [["0", "4"], ["1", "4"], ["2", "4"]]
    assert max(map(len, lines)) <= 80


def test_json_adds_up(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    whole = found([*run, "--replicas", "3"], capsys)
    each = whole["replicas"]
    assert isinstance(each, list)
    assert [one["computes"] for one in each] == ["both"] * 3
    assert sum(one["summary"]["completed"] for one in each) == whole["completed"] == 12
    assert sum(one["summary"]["output_tokens"] for one in each) == whole["output_tokens"]
    assert "replicas" not in found(run, capsys)


def test_pools_are_named_by_what_they_compute(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [*run, "--replicas", "1", "--prefill-replicas", "2"]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in ("prompts 0", "prompts 1", "answers 0"))


def test_prefill_replicas_of_more_gpus_are_faster_and_cost_more(
    run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*run, "--prefill-replicas", "1", "--usd-per-hour", "2"]
    one, two = found(words, capsys), found([*words, "--prefill-gpus", "2"], capsys)
    ttft = [each["ttft_s"] for each in (one, two)]
    assert isinstance(ttft[0], dict)
    assert isinstance(ttft[1], dict)
    assert ttft[1]["mean"] < ttft[0]["mean"]
    prices = [
        each["usd_per_million_tokens"] * each["output_tokens_per_s"]  # type: ignore[operator]  # numbers
        for each in (one, two)
    ]
    assert prices[1] == pytest.approx(1.5 * prices[0])


def test_prefill_gpus_need_prefill_replicas(run: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*run, "--prefill-gpus", "2"]) == 2
    assert "Give --prefill-replicas." in capsys.readouterr().err
