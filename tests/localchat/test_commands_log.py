"""``localchat log``, ``explain`` and ``route``: what people and scripts read of the record."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from localchat.story import story
from localchat.words import duration, money
from router.decision import Verdict
from router.ledger import Ledger
from router.request import HandedOff, Simulated
from tests.localchat.command_line import Outcome, run
from tests.router.ledger.entries import FULL, plain


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """One answer by this machine, one by the cloud with everything in it, one that failed, from the cache."""
    with Ledger(tmp_path / "data/ledger.db") as ledger:
        ledger.record(plain(1, id="aaaa1111", conversation_id=1))
        ledger.record(
            replace(FULL, id="bbbb2222", started_at=time.time() - 60, simulated=None, version="=1+1")
        )
        ledger.record(
            plain(2, id="aabb3333", answered_by="cache", cost_usd=None, usage=None, outcome="CloudBusy")
        )
    return tmp_path


@pytest.mark.parametrize("words", [["list"], ["summary"], ["replay"], ["export"], ["list", "--json"]])
def test_before_the_first_answer_there_is_nothing_and_nothing_is_made(
    tmp_path: Path, words: list[str]
) -> None:
    outcome = run(tmp_path, "log", *words)
    assert (outcome.code, outcome.err) == (0, "")
    assert not (tmp_path / "data").exists()


def test_answers_are_listed_newest_first(home: Path) -> None:
    lines = run(home, "log", "list").out.splitlines()
    assert [line.split()[0] for line in lines] == ["id", "bbbb2222", "aabb3333", "aaaa1111"]
    assert "100 + 50" in lines[1]
    assert lines[1].endswith("$0.0011  stop, not secrets")
    assert "unknown" in lines[2]
    assert lines[2].endswith("unknown  CloudBusy")
    assert [row["id"] for row in json.loads(run(home, "log", "list", "--json", "-n", "2").out)] == [
        "bbbb2222",
        "aabb3333",
    ]


def test_some_of_them_can_be_chosen(home: Path) -> None:
    assert "aaaa1111" in run(home, "log", "list", "--conversation", "1").out
    assert len(run(home, "log", "list", "--from", "cache").out.splitlines()) == 2
    assert len(run(home, "log", "list", "--days", "1").out.splitlines()) == 2
    assert run(home, "log", "list", "--days", "0").code == 2


def test_all_of_one_entry_is_shown(home: Path) -> None:
    shown = json.loads(run(home, "log", "show", "bbbb").out)
    assert (shown["prompt"], shown["parameters"]["seed"], shown["privacy_found"]) == (
        "What?",
        5,
        {"email": 2},
    )
    assert "prompt" not in json.loads(run(home, "log", "show", "aaaa").out)
    for words, told in (
        (["aa"], "Several entries begin"),
        (["zz"], "There is no entry 'zz'. `localchat log list`"),
    ):
        outcome = run(home, "log", "show", *words)
        assert (outcome.code, outcome.out) == (1, "")
        assert told in outcome.err


def test_everything_is_exported_the_oldest_first(home: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in run(home, "log", "export").out.splitlines()]
    assert [row["id"] for row in rows] == ["aaaa1111", "aabb3333", "bbbb2222"]
    assert run(home, "log", "export", "--format", "csv", "-o", str(tmp_path / "x.csv")) == Outcome(0, "", "")
    table = list(csv.DictReader(io.StringIO((tmp_path / "x.csv").read_text(encoding="utf-8"))))
    assert [row["cost_usd"] for row in table] == ["0.0", "", "0.0011"]
    assert table[2]["version"] == "'=1+1"
    assert json.loads(table[2]["verdicts"])[1]["validator"] == "secrets"
    assert run(home, "log", "export", "-o", str(tmp_path)).code == 2


def test_sums_say_what_is_unknown(home: Path) -> None:
    out = run(home, "log", "summary").out
    assert "3 answers: 1 by this machine, 1 from the cache, 1 by the cloud." in out
    assert "Tokens: 110 in, 55 out, and an unknown sum for 1 answers." in out
    assert "Spent: $0.0011, and an unknown sum for 1 answers." in out
    assert "stayed on this machine: 200 bytes; that left it: 1,234." in out
    assert json.loads(run(home, "log", "summary", "--json").out)["spent_unknown"] == 1


def test_policies_are_replayed_over_the_record(home: Path) -> None:
    words = ["log", "replay", "--policy", "recorded", "cloud", "difficulty>=0.1"]
    out = run(home, *words).out.splitlines()
    assert [line.split("  ")[0] for line in out] == ["policy", "recorded", "cloud", "difficulty>=0.1"]
    assert "2 stay for want of a figure" in out[3]
    rows = json.loads(run(home, *words, "--json").out)
    assert [row["to_cloud"] for row in rows] == [1, 3, 1]
    assert run(home, *words).out.splitlines() == out
    outcome = run(home, "log", "replay", "--policy", "dearest")
    assert (outcome.code, "There is no policy 'dearest'" in outcome.err) == (1, True)


def test_a_record_that_cannot_be_read_is_an_error_with_a_next_step(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/ledger.db").write_bytes(b"Dear diary, " * 1000)
    for words in (["log", "list"], ["explain"], ["route", "economics"]):
        outcome = run(tmp_path, *words)
        assert (outcome.code, outcome.out) == (1, "")
        assert "not a database. It was left untouched" in outcome.err


# Explain


def test_the_last_answer_or_the_one_that_is_named_is_explained(home: Path) -> None:
    assert run(home, "explain").out.startswith("Answer bbbb2222 of ")
    assert run(home, "explain", "aaaa").out.startswith("Answer aaaa1111 of ")
    told = json.loads(run(home, "explain", "--json").out)
    assert (told["entry"]["id"], told["story"][0][:15]) == ("bbbb2222", "Answer bbbb2222")


def test_before_the_first_answer_there_is_nothing_to_explain(tmp_path: Path) -> None:
    outcome = run(tmp_path, "explain")
    assert (outcome.code, outcome.err[:40]) == (1, "localchat: No answer is recorded yet. As")


def test_a_story_tells_all_that_happened() -> None:
    told = "\n".join(story(FULL))
    for words in (
        "by gpt-4.1-mini (2025-04-14), openai.",
        "SIMULATED: the cloud was a simulated a100",
        "In mode auto it was sent to this machine, expected first words after 0.4 s, all after 6.0 s, ",
        "Because: The question looks easy.",
        "with a chance of 20%",
        "Not the cloud (gpt-4.1-mini: first words after 0.6 s, all after 3.5 s, for $0.0012): It costs",
        "Privacy: 2 e-mail addresses found; placeholders were sent instead",
        "Cache (semantic): answered before, 60.0 s earlier, to “And?” (similarity 0.970, at least 0.950",
        "Guard: numbers differ.",
        "Confidence after 16 tokens: wrong with a chance of 70% (handed off from 50% on): too low to show",
        "Then this machine handed it to the cloud: The beginning was not convincing.",
        "First words after 0.7 s, all after 4.0 s. The answer came to its own end.",
        "Tokens: 100 in (20 of them cached), 50 out.",
        "Cost: $0.0011 (simulated).",
        "Checked and passed: format.",
        "Check “secrets” failed: The answer shows a secret.",
    ):
        assert words in told


def test_a_story_without_figures_says_that_they_are_unknown() -> None:
    bare = plain(1, usage=None, total_s=None, cost_usd=None, avoided_usd=None, outcome="BackendCrashed")
    told = "\n".join(story(bare))
    assert "First words after unknown, all after unknown. It failed: BackendCrashed." in told
    assert "Tokens: unknown." in told
    assert "Cost: unknown; by the cloud it would have been unknown." in told
    for absent in ("Privacy", "Cache", "Confidence", "Difficulty", "Checked", "SIMULATED", "Later"):
        assert absent not in told


def test_what_steers_a_terminal_is_told_without_doing_it(tmp_path: Path) -> None:
    with Ledger(tmp_path / "data/ledger.db") as ledger:
        ledger.record(plain(1, model="tiny\x1b[2J", verdicts=(Verdict("x", False, "\x07"),)))
    assert "\x1b" not in run(tmp_path, "explain").out + run(tmp_path, "log", "list").out


def test_what_went_to_a_cloud_and_came_back_is_told() -> None:
    back = plain(1, route="cloud", hand_offs=(HandedOff("cloud", "local", "The connection was lost", True),))
    assert any(
        line == "Then the cloud handed it to this machine: The connection was lost. "
        "What had been shown stays, marked as unfinished."
        for line in story(back)
    )


@pytest.mark.parametrize(
    ("usd", "told"),
    [(None, "unknown"), (0.0, "$0"), (0.0011, "$0.0011"), (0.00000123, "$1.2e-06"), (1234.5, "$1,234.50")],
)
def test_money(usd: float | None, told: str) -> None:
    assert money(usd) == told


def test_durations() -> None:
    assert [duration(each) for each in (None, 0.04, 99.0, 150.0)] == ["unknown", "0.0 s", "99.0 s", "2.5 min"]


# Economics


def test_four_fifths_to_a_model_ten_times_cheaper_save_72_percent(tmp_path: Path) -> None:
    out = run(tmp_path, "route", "economics", "--local-share", ".8", "--cost-ratio", "10").out
    assert "0.8 / 10 + 0.2 = 0.28" in out
    assert "Saved: 72 %\n" in out
    assert "Your own: unknown" in out
    told = json.loads(run(tmp_path, "route", "economics", "--json").out)
    assert (told["saved"], told["mean_cost"], told["own"]["saved"]) == (0.72, 0.28, None)


def test_ones_own_saving_comes_from_the_record(home: Path) -> None:
    with Ledger(home / "data/ledger.db") as ledger:
        ledger.record(
            plain(
                9, answered_by="cloud", sent=True, cost_usd=5.0, avoided_usd=None, simulated=Simulated("a100")
            )
        )
    out = run(home, "route", "economics").out
    assert "Your own: 65%; 2 of 4 answers cost nothing and avoided $0.0020, the others cost $0.0011." in out
    assert "The cost of 1 more is unknown" in out


@pytest.mark.parametrize("words", [["--local-share", "1.1"], ["--local-share", "x"], ["--cost-ratio", "0"]])
def test_what_is_no_share_or_ratio_is_wrong_usage(tmp_path: Path, words: list[str]) -> None:
    assert run(tmp_path, "route", "economics", *words).code == 2
