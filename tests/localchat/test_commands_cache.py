"""`localchat cache`: what is kept, what it is worth, and files that cannot be used."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from localchat.cli import main
from localchat.paths import find_paths
from router.cache.embed import MiniLM
from router.cache.guard.compare import WordGuard
from router.cache.key import Key
from router.cache.serving import rules_id
from router.cache.store import NewEntry, Store

WORTH = ["cache", "worth", "--calls", "1000", "--call-cost", "0.002", "--wrong-cost", "0.05"]


def kept(question: str = "What is osmosis?", answer: str = "A flow of water.") -> int:
    store = Store(find_paths().answers)
    key = Key(b"p" * 32, question.encode(), question)
    new = NewEntry(key, "me", "acme", "large-1", question, answer, "ordinary", 86_400.0, cost_usd=0.002)
    entry = store.add(new)
    found = store.exact(key)
    assert entry is not None
    assert found is not None
    store.used(found, 0.95, 0.9, rules_id(MiniLM.id, WordGuard.version))
    store.close()
    return entry


def as_json(capsys: pytest.CaptureFixture[str], *words: str) -> object:
    assert main(["cache", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_worth_of_the_published_rates(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORTH, "--hit-rate", "0.97", "--wrong-rate", "0.057"]) == 0
    out = capsys.readouterr().out
    assert "saves $1.94, loses $2.85: net −$0.91" in out
    assert "does not pay" in out

    assert main([*WORTH, "--hit-rate", "0.961", "--wrong-rate", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert round(found["saved_usd"], 2) == 1.92
    assert found["lost_usd"] == 0
    assert found["pays"] is True


def test_worth_of_impossible_rates_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*WORTH, "--hit-rate", "0.5", "--wrong-rate", "0.6"]) == 2
    assert "wrong answers are among the hits" in capsys.readouterr().err


def test_an_empty_cache_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "list"]) == 0
    assert capsys.readouterr().out == ""
    stats = as_json(capsys, "stats")
    assert isinstance(stats, dict)
    assert stats["entries"] == 0


def test_what_is_kept_is_listed_shown_and_exported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    entry = kept()

    assert main(["cache", "list"]) == 0
    assert "What is osmosis?" in capsys.readouterr().out
    assert main(["cache", "show", str(entry)]) == 0
    assert "A flow of water." in capsys.readouterr().out
    target = tmp_path / "out.json"
    assert main(["cache", "export", "-o", str(target)]) == 0
    exported = json.loads(target.read_text())
    assert exported[0]["answer"] == "A flow of water."
    assert exported == as_json(capsys, "list")


def test_an_answer_cannot_move_the_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    entry = kept("What is \x1b[2J?", "It is \x1b]0;title\x07.")

    for words in (["list"], ["show", str(entry)]):
        assert main(["cache", *words]) == 0
        assert "\x1b" not in capsys.readouterr().out


def test_forget_removes_and_wrong_counts_against_the_promise(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = kept(), kept("What else?")

    assert main(["cache", "forget", str(first)]) == 0
    assert main(["cache", "forget", str(first)]) == 1
    assert "cache list" in capsys.readouterr().err
    assert main(["cache", "forget", str(second), "--wrong"]) == 0
    found = as_json(capsys, "calibrate")
    assert isinstance(found, dict)
    assert (found["own"], found["own_wrong"]) == (2, 1)


def test_purge_asks_and_without_a_terminal_wants_yes(capsys: pytest.CaptureFixture[str]) -> None:
    kept()

    assert main(["cache", "purge"]) == 1
    assert "--yes" in capsys.readouterr().err
    assert main(["cache", "purge", "--yes"]) == 0
    assert as_json(capsys, "list") == []


def test_a_corrupt_file_is_named_and_purge_starts_anew(capsys: pytest.CaptureFixture[str]) -> None:
    path = find_paths().answers
    path.parent.mkdir(parents=True)
    path.write_bytes(b"garbage" * 1000)

    assert main(["cache", "stats"]) == 1
    assert "cache purge" in capsys.readouterr().err
    assert main(["cache", "purge", "--yes"]) == 0
    assert main(["cache", "stats"]) == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_promise_is_told_with_the_sample_it_rests_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "calibrate"]) == 0
    out = capsys.readouterr().out

    assert "CLINC150" in out
    assert "90% sure" in out


def test_the_study_prints_its_table_beside_what_was_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "study"]) == 0
    out = capsys.readouterr().out

    assert "bound and guards" in out
    assert "Published:" in out
