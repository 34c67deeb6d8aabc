"""Numbers that could not mean anything are refused in one line, before anything runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from localchat.cli import main


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["simulate", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--gpus", "0"),
        ("--block-size", "0"),
        ("--swap", "nan"),
        ("--swap", "inf"),
        ("--max-tokens", "-5"),
        ("--slo-ttft", "-1"),
        ("--slo-tpot", "nan"),
        ("--usd-per-hour", "nan"),
        ("--usd-per-hour", "-1"),
        ("--predict", "-1"),
        ("--predict", "nan"),
        ("--link", "nan"),
    ],
)
def test_of_a_run(flag: str, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "requests.csv"
    path.write_text("arrived_at,num_prefill_tokens,num_decode_tokens\n0,10,5\n", encoding="utf-8")
    said = refused(["run", "--requests", str(path), "--prefill-replicas", "1", f"{flag}={value}"], capsys)
    assert flag in said


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--rate", "nan"),
        ("--timeout", "nan"),
        ("--urgent", "2"),
        ("--slo", "-1"),
        ("--usd-per-hour", "nan"),
    ],
)
def test_of_batching(flag: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert flag in refused(["batching", "--count", "10", f"{flag}={value}"], capsys)


@pytest.mark.parametrize("line", ["nan,2", "-1,2", "1,inf"])
def test_a_batch_takes_a_time(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "a number of seconds" in refused(["batching", "--count", "10", f"--linear={line}"], capsys)
