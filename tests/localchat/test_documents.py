"""The guide shows what the program says: every example in it is run, figures apart."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.localchat.command_line import run

GUIDE = Path(__file__).parents[2] / "docs/prediction.md"
EXAMPLE = re.compile(r"^    \$ localchat (.+)\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)


def examples() -> list[tuple[str, str]]:
    return EXAMPLE.findall(GUIDE.read_text(encoding="utf-8"))


def without_figures(text: str) -> list[list[str]]:
    """Words of each line; figures and their units differ from one version to the next."""
    text = re.sub(r"\d[\d,.]*( ms| s| min| MB| GB)?\b", "N", text)
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(("words", "shown"), examples(), ids=lambda text: text.split("\n")[0][:40])
def test_an_example_is_what_is_printed(
    tmp_path: Path, words: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandwidth_model.recognise.this_device", lambda: None)
    outcome = run(tmp_path, *shlex.split(words))
    assert outcome.code == 0, outcome.err
    assert without_figures(outcome.out) == without_figures(shown)


def test_there_are_examples_of_all_three_commands() -> None:
    assert {words.split()[0] for words, _ in examples()} == {"predict", "fit", "devices"}
