"""The store as a file: private, migrated, and never lost to a failure."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from localchat.errors import HistoryError
from localchat.history import History
from localchat.history import connection as connection_module


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "data" / "h.db"
    with History(path) as history:
        history.new_conversation()
        assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}
        assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o644)
    path.parent.chmod(0o755)
    with History(path):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o755  # not made here: it may be anyone's


def test_a_private_history_touches_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with History(None) as history:
        history.add(history.new_conversation().id, None, "user", "between us")
        assert [hit.snippet for hit in history.search("between")] == ["«between» us"]
    assert list(tmp_path.iterdir()) == []


def test_a_deleted_conversation_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with History(path) as history:
        conversation = history.new_conversation()
        history.add(conversation.id, None, "user", "regrettable " * 2000)
    assert b"regrettable" in path.read_bytes()
    with History(path) as history:
        history.delete(conversation.id)
    assert b"regrettable" not in path.read_bytes()


def test_a_long_thread_can_be_read_and_deleted(tmp_path: Path) -> None:
    with History(None) as history:
        conversation = history.new_conversation()
        last = None
        for _ in range(3000):
            last = history.add(conversation.id, last, "user", "on").id
        assert last is not None
        assert len(history.path(last)) == 3000
        history.delete(conversation.id)
        assert history._db.select(tuple, "SELECT count(*) FROM message", ()) == [(0,)]


# Versions


def store_of_version_1(path: Path) -> None:
    connection = sqlite3.connect(path)
    for statement in connection_module.KIND.migrations[0]:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {connection_module.KIND.application_id}")
    connection.executescript("""
        INSERT INTO conversation VALUES (1, 'Old', 1.0, 2.0, 2, 2, 'Be brief.');
        INSERT INTO message VALUES (1, 1, NULL, 'user', 'done', '', 1.0, 1.0, NULL, NULL, 'question', '');
        INSERT INTO message VALUES (2, 1, 1, 'assistant', 'done', 'm', 2.0, 2.0,
            '{"prompt_tokens": 5, "completion_tokens": 1, "of_another_version": 3}', NULL, 'answer', 'why');
        PRAGMA user_version = 1;
    """)
    connection.close()


def test_a_store_of_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    store_of_version_1(tmp_path / "h.db")
    with History(tmp_path / "h.db") as history:
        assert history.conversation(1).system == "Be brief."
        question, answer = history.path(2)
        assert (question.content, answer.content, answer.reasoning) == ("question", "answer", "why")
        assert (answer.kind, answer.excluded) == ("message", False)
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == 5
        assert [hit.message_id for hit in history.search("answer")] == [2]
        history.set_excluded([1], True)
        assert history.message(1).excluded


def test_a_migration_that_fails_leaves_the_old_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "h.db"
    store_of_version_1(path)
    with monkeypatch.context() as patched:
        migrations = (*connection_module.KIND.migrations, ("CREATE TABLE message(id)",))
        patched.setattr(connection_module, "KIND", replace(connection_module.KIND, migrations=migrations))
        with pytest.raises(HistoryError, match="already exists"):
            History(path)
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()
    with History(path) as history:
        assert len(history.path(2)) == 2


def test_a_store_of_a_newer_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    History(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    refused(path, r"store version 7; this one reads up to 3\)\. Update localchat")


# Failures


def refused(path: Path, message: str) -> None:
    before = path.read_bytes()
    with pytest.raises(HistoryError, match=message):
        History(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_what_is_no_database_is_refused_and_unchanged(tmp_path: Path) -> None:
    (tmp_path / "h.db").write_bytes(b"Dear diary, " * 1000)
    refused(tmp_path / "h.db", r"not a database\. It was left untouched")


def test_a_database_of_another_program_is_refused_and_unchanged(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "h.db")
    connection.execute("CREATE TABLE bookmarks(url)")
    connection.close()
    refused(tmp_path / "h.db", r"another program\. Choose another file")


def test_a_damaged_store_is_an_error_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with History(path) as history:
        for _ in range(200):
            history.add(history.new_conversation().id, None, "user", "x" * 500)
    whole = bytearray(path.read_bytes())
    whole[8192:] = b"\xa5" * (len(whole) - 8192)
    path.write_bytes(whole)
    with History(path) as history, pytest.raises(HistoryError, match="It was left untouched"):
        history.tree(1)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("place", ["file/h.db", "file/deeper/h.db", "folder"])
def test_a_place_that_cannot_hold_a_store_is_an_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("here first")
    (tmp_path / "folder").mkdir()
    with pytest.raises(HistoryError, match="Check that its folder exists and is writable"):
        History(tmp_path / place)
    assert (tmp_path / "file").read_text() == "here first"


def test_a_file_that_is_not_ours_to_write_is_an_error_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    History(tmp_path / "h.db").close()
    monkeypatch.setattr(os, "access", lambda *_: False)  # permissions do not stop an administrator
    with pytest.raises(HistoryError, match="not readable and writable for you"):
        History(tmp_path / "h.db")


def test_a_store_that_became_read_only_can_still_be_read(tmp_path: Path) -> None:
    with History(tmp_path / "h.db") as history:
        message = history.add(history.new_conversation().id, None, "user", "kept")
        history._db._sqlite.execute("PRAGMA query_only = ON")
        with pytest.raises(HistoryError, match="Make the file and its folder writable"):
            history.update(message.id, content="lost", state="done")
        assert history.message(message.id).content == "kept"


def test_a_full_disk_loses_nothing_that_was_saved(tmp_path: Path) -> None:
    with History(tmp_path / "h.db") as history:
        conversation = history.new_conversation()
        history._db._sqlite.execute("PRAGMA max_page_count = 60")
        saved: list[int] = []

        def fill() -> None:
            while True:
                saved.append(history.add(conversation.id, None, "user", f"{len(saved)} " * 2000).id)

        with pytest.raises(HistoryError, match=r"full\. Free some disk space"):
            fill()
        assert saved
        assert [message.id for message in history.tree(conversation.id)] == saved
        assert history.conversation(conversation.id).leaf_id == saved[-1]
        history._db._sqlite.execute("PRAGMA max_page_count = 1000")
        saved.append(history.add(conversation.id, None, "user", "room again").id)
    with History(tmp_path / "h.db") as history:
        assert [message.id for message in history.tree(conversation.id)] == saved


def test_a_locked_store_is_an_error_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = replace(connection_module.KIND, busy_timeout_s=0.01)
    monkeypatch.setattr(connection_module, "KIND", kind)
    with History(tmp_path / "h.db") as history:
        other = sqlite3.connect(tmp_path / "h.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HistoryError, match="Another program keeps it locked"):
            history.new_conversation()
        other.close()
        history.new_conversation()
