"""``localchat simulate workload``: a list that ``simulate run`` reads, and that a seed fixes."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from statistics import mean, median, stdev

import pytest

from localchat.cli import main
from router.simcloud.trace_files import read_lines


def made(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["simulate", "workload", *words]) == 0
    return capsys.readouterr().out


def test_what_is_asked_comes_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "made.csv"
    path.write_text(made(capsys, "--count", "2000", "--rate", "8", "--burst", "3"), encoding="utf-8")
    lines = list(read_lines(path))
    gaps_s = [after.arrived_s - before.arrived_s for before, after in pairwise(lines)]
    assert len(lines) == 2000
    assert mean(gaps_s) == pytest.approx(1 / 8, rel=0.2)
    assert stdev(gaps_s) / mean(gaps_s) == pytest.approx(3, rel=0.2)
    assert median(line.prompt_tokens for line in lines) == pytest.approx(512, rel=0.1)
    assert median(line.output_tokens for line in lines) == pytest.approx(128, rel=0.1)


def test_the_same_seed_the_same_list(capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (made(capsys, "--count", "20", "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again != other


def test_it_can_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "made.csv"
    path.write_text(made(capsys, "--count", "30", "--spread", "0"), encoding="utf-8")
    assert main(["simulate", "run", "--requests", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["completed"], found["output_tokens"]) == (30, 30 * 128)


@pytest.mark.parametrize("flag", ["--rate", "--burst", "--count", "--prompt", "--answer", "--longest"])
def test_nothing_of_nothing(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "workload", f"{flag}=0"]) == 2
    assert f"{flag} 0: give a number above 0" in capsys.readouterr().err


@pytest.mark.parametrize("replicas", ["1", "2"])
def test_clients_wait_for_their_answers(
    replicas: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All of the list is asked, one that can never fit is refused, and no more run at once than there are."""
    path = tmp_path / "made.csv"
    text = made(capsys, "--count", "40", "--rate", "1000", "--longest", "600")
    path.write_text(text + "0.5,9000000,10\n", encoding="utf-8")
    words = ["simulate", "run", "--requests", str(path), "--clients", "3", "--replicas", replicas, "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["completed"], found["rejected"]) == (40, 1)
    assert found["mean_batch"] <= 3
    assert main([*words, "--think", "5"]) == 0
    assert json.loads(capsys.readouterr().out)["makespan_s"] > 41 / 3 * 5 - 5


def test_clients_need_replicas_that_do_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "made.csv"
    path.write_text(made(capsys, "--count", "3"), encoding="utf-8")
    words = ["simulate", "run", "--requests", str(path), "--clients", "3", "--prefill-replicas", "1"]
    assert main(words) == 2
    assert "--prefill-replicas" in capsys.readouterr().err
