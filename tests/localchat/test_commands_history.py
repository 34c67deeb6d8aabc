"""``localchat history``: what people and scripts read of their conversations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localchat.history import History
from tests.localchat.command_line import Outcome, run


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two conversations, the second with a branch and reasoning."""
    times = iter(range(1_700_000_000, 1_800_000_000, 60))
    with History(tmp_path / "data/history.db", now=lambda: next(times)) as history:
        first = history.new_conversation()
        history.add(first.id, None, "user", "The first\nquestion")
        second = history.new_conversation(system="Be brief.")
        question = history.add(second.id, None, "user", "What is\x1b[31m ümläut?")
        history.add(second.id, question.id, "assistant", "An old answer", model="tiny")
        answer = history.add(second.id, question.id, "assistant", "", state="streaming")
        history.update(answer.id, content="Two dots «»", reasoning="hm", state="done", model="tiny")
    return tmp_path


def history(home: Path, *words: str) -> Outcome:
    return run(home, "history", *words)


def test_a_new_home_has_no_conversations(tmp_path: Path) -> None:
    for words in (["list"], ["search", "x"]):
        assert history(tmp_path, *words) == Outcome(0, "", "")
        assert history(tmp_path, *words, "--json") == Outcome(0, "[]\n", "")


def test_they_are_listed_newest_first(home: Path) -> None:
    outcome = history(home, "list")
    assert (outcome.code, outcome.err) == (0, "")
    lines = [line.split(maxsplit=4) for line in outcome.out.splitlines()]
    assert [(number, count, title) for number, _, _, count, title in lines] == [
        ("2", "3", "What is [31m ümläut?"),
        ("1", "1", "The first"),
    ]
    assert history(home, "list", "-n", "1").out.count("\n") == 1
    rows = json.loads(history(home, "list", "--json").out)
    assert [set(row) for row in rows] == [{"id", "title", "updated_at", "messages"}] * 2
    assert [(row["id"], row["messages"]) for row in rows] == [(2, 3), (1, 1)]


def test_words_are_found_in_all_branches(home: Path) -> None:
    assert history(home, "search", "old", "answer").out == (
        "     2  What is [31m ümläut?\n        An «old» «answer»\n"
    )
    (hit,) = json.loads(history(home, "search", "--json", "dots").out)
    assert (hit["conversation"], hit["snippet"]) == (2, "Two «dots» ‹›")
    assert history(home, "search", "nothing").out == ""
    assert history(home, "search", "--", "-x", '"', "%").code == 0


def test_a_conversation_is_exported_as_markdown(home: Path, tmp_path: Path) -> None:
    outcome = history(home, "export", "2")
    assert (outcome.code, outcome.err) == (0, "")
    assert "## System prompt\n\nBe brief." in outcome.out
    assert "## Assistant (tiny)\n\nTwo dots «»" in outcome.out
    assert "An old answer" not in outcome.out
    assert "hm" not in outcome.out
    assert "### Reasoning\n\nhm" in history(home, "export", "2", "--reasoning").out
    file = tmp_path / "out.md"
    assert history(home, "export", "2", "-o", str(file)) == Outcome(0, "", "")
    assert file.read_text(encoding="utf-8") == outcome.out


def test_a_conversation_is_exported_as_json(home: Path) -> None:
    exported = json.loads(history(home, "export", "2", "--format", "json").out)
    assert exported["conversation"]["system"] == "Be brief."
    said = [message["content"] for message in exported["messages"]]
    assert said == ["What is\x1b[31m ümläut?", "An old answer", "Two dots «»"]


def test_where_an_export_cannot_be_written_is_named(home: Path, tmp_path: Path) -> None:
    outcome = history(home, "export", "2", "-o", str(tmp_path))
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"localchat: {tmp_path} cannot be written: Is a directory.\n"


def test_renaming_and_deleting(home: Path) -> None:
    assert history(home, "rename", "1", "Two\nlines \x1b[2J") == Outcome(0, "", "")
    assert history(home, "list").out.splitlines()[1].endswith("1  Two lines [2J")
    assert history(home, "delete", "1") == Outcome(0, "", "Deleted 1: Two lines [2J\n")
    assert [row["id"] for row in json.loads(history(home, "list", "--json").out)] == [2]


@pytest.mark.parametrize("words", [["export", "7"], ["rename", "7", "x"], ["delete", "7"]])
def test_what_is_not_there_is_said(home: Path, words: list[str]) -> None:
    outcome = history(home, *words)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("localchat: There is no conversation 7.")
    assert len(json.loads(history(home, "list", "--json").out)) == 2
