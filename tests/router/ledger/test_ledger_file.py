"""The record as a file: private, shared, and never the reason that an answer is late or lost."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from router.errors import LedgerError
from router.ledger import Ledger
from router.ledger import file as ledger_file
from router.ledger import ledger as ledger_module
from tests.router.ledger.entries import plain

WRITER = """
import sys
from pathlib import Path
from router.ledger import Ledger
from tests.router.ledger.entries import plain
print("ready", flush=True)
sys.stdin.readline()
ledger = Ledger(Path(sys.argv[1]))
for number in range(int(sys.argv[2])):
    ledger.record(plain(number))
    if ledger.flush():
        print(number, flush=True)
ledger.close()
"""


def spawn(path: Path, entries: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(entries)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")
    process.stdin.flush()


def test_only_its_owner_can_read_it_and_nothing_is_made_by_looking(tmp_path: Path) -> None:
    path = tmp_path / "data" / "ledger.db"
    ledger = Ledger(path)
    assert ledger.entries() == []
    assert not path.parent.exists()
    ledger.record(plain(1))
    assert ledger.flush()
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    ledger.close()


def test_programs_may_fill_it_at_once(tmp_path: Path) -> None:
    processes = [spawn(tmp_path / "ledger.db", 40) for _ in range(2)]
    for process in processes:
        go(process)
    for process in processes:
        process.communicate(timeout=30)
    assert Ledger(tmp_path / "ledger.db").totals().answers == 80


def test_a_killed_program_loses_at_most_what_was_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    with spawn(path, 100_000) as process:
        go(process)
        assert process.stdout is not None
        while process.stdout.readline() != "20\n":
            pass
        process.send_signal(signal.SIGKILL)
        acknowledged = [20, *map(int, process.stdout.read().split("\n")[:-1])][-1]
    with Ledger(path) as ledger:
        assert ledger.totals().answers in (acknowledged + 1, acknowledged + 2)
        ledger.record(plain(1))
        assert ledger.flush()
        assert ledger._select("PRAGMA integrity_check", {}) == [("ok",)]


def test_a_locked_file_holds_nobody_up_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "KIND", replace(ledger_file.KIND, busy_timeout_s=0.05))
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.record(plain(0))
        assert ledger.flush()
        other = sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        for number in range(20):
            ledger.record(plain(number))
        assert not ledger.flush()
        assert "Another program keeps it locked" in ledger.trouble()
        assert ledger.trouble() == ""
        assert ledger.totals().answers == 21
        other.close()
        assert ledger.flush()
        assert ledger._select("SELECT count(*) FROM entry", {}) == [(21,)]


def troubled(path: Path, told: str) -> None:
    """Recording returns, the trouble is told, the file is as it was, and reading says the same."""
    before = path.read_bytes() if path.is_file() else b""
    with Ledger(path) as ledger:
        ledger.record(plain(1))
        assert not ledger.flush()
        assert told in ledger.trouble()
        with pytest.raises(LedgerError, match=told[:20]):
            ledger.entries()
    assert not path.is_file() or path.read_bytes() == before


def test_what_is_no_database_costs_a_notice(tmp_path: Path) -> None:
    (tmp_path / "ledger.db").write_bytes(b"Dear diary, " * 1000)
    troubled(tmp_path / "ledger.db", "cannot be used: file is not a database. It was left untouched")


def test_a_database_of_another_program_costs_a_notice(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "ledger.db")
    connection.execute("CREATE TABLE bookmarks(url)")
    connection.close()
    troubled(tmp_path / "ledger.db", "is a database of another program")


def test_a_file_of_a_newer_program_costs_a_notice(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.record(plain(1))
    connection = sqlite3.connect(tmp_path / "ledger.db")
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    troubled(
        tmp_path / "ledger.db", "was written by a newer localchat (ledger version 7; this one reads up to 1)"
    )


def test_a_place_that_cannot_hold_it_costs_a_notice(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    troubled(tmp_path / "folder", "Check that its folder exists")


def test_a_file_that_is_not_ours_to_write_costs_a_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Ledger(tmp_path / "ledger.db").close()
    (tmp_path / "ledger.db").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)  # permissions do not stop an administrator
    troubled(tmp_path / "ledger.db", "cannot be opened: it is not readable and writable for you")


def test_a_full_disk_loses_nothing_that_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def small(path: Path) -> sqlite3.Connection:
        connection = opened(path)
        connection.execute("PRAGMA max_page_count = 20")
        return connection

    opened = ledger_file.open_ledger
    monkeypatch.setattr(ledger_module, "open_ledger", small)
    with Ledger(tmp_path / "ledger.db") as ledger:
        written = 0
        while ledger.flush():
            ledger.record(plain(written, answer="x" * 5_000))
            written += 1
        assert "Free some disk space" in ledger.trouble()
        assert ledger._select("SELECT count(*) FROM entry", {}) == [(written - 1,)]
        assert ledger.totals().answers == written


def test_what_waits_too_long_is_dropped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MOST_WAITING", 3)
    (tmp_path / "ledger.db").write_bytes(b"no database" * 100)
    with Ledger(tmp_path / "ledger.db") as ledger:
        for number in range(5):
            ledger.record(plain(number))
        ledger.flush()
        assert "2 answers are not in it" in ledger.trouble()


def test_an_entry_that_cannot_be_written_does_not_stop_the_next(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.record(plain(1, payload_bytes=2**70))
        ledger.flush()
        assert "could not be recorded" in ledger.trouble()
        ledger.record(plain(2))
        assert ledger.flush()
        assert ledger.totals().answers == 1
