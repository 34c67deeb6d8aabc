"""How the store is laid out on disk, opened, and brought up to date.

Owns the file's permissions, the schema and its migrations. Knows nothing of
what is asked of the store, and raises what SQLite and the file system raise.

A store is only written to after it has proved to be one of ours and not newer
than this program: a corrupt or foreign file is reported, never touched.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from localchat.errors import HistoryError

APPLICATION_ID = 0x6C636861  # "lcha": tells our files from any other SQLite database
BUSY_TIMEOUT_S = 5.0

# Ids are AUTOINCREMENT so that one remembered by another process never comes to mean something else.
# content and reasoning come last: columns behind them would cost a walk through their pages.
# message.parent_id must not cascade: a thread of thousands would exceed SQLite's trigger depth of 1,000.
_VERSION_1 = (
    """CREATE TABLE conversation(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        message_count INTEGER NOT NULL DEFAULT 0,
        leaf_id INTEGER,
        system TEXT NOT NULL)""",
    """CREATE INDEX conversation_by_time ON conversation(updated_at DESC, id DESC)
        WHERE leaf_id IS NOT NULL""",
    """CREATE TABLE message(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation_id INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
        parent_id INTEGER REFERENCES message(id) DEFERRABLE INITIALLY DEFERRED,
        role TEXT NOT NULL,
        state TEXT NOT NULL,
        model TEXT NOT NULL,
        created_at REAL NOT NULL,
        touched_at REAL NOT NULL,
        usage TEXT,
        timings TEXT,
        content TEXT NOT NULL,
        reasoning TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX message_by_parent ON message(parent_id)",
    "CREATE INDEX message_by_conversation ON message(conversation_id, parent_id)",
    "CREATE INDEX message_streaming ON message(id) WHERE state = 'streaming'",
    """CREATE TABLE draft(
        conversation_id INTEGER UNIQUE REFERENCES conversation(id) ON DELETE CASCADE,
        text TEXT NOT NULL)""",
    # Three-character tokens find any part of a word in any script, Chinese and Japanese included.
    """CREATE VIRTUAL TABLE message_text USING fts5(
        content, content='message', content_rowid='id', tokenize='trigram')""",
    # A message is indexed when it stops streaming: each partial save would otherwise index it all again.
    """CREATE TRIGGER message_added AFTER INSERT ON message WHEN new.state <> 'streaming' BEGIN
        INSERT INTO message_text(rowid, content) VALUES (new.id, new.content);
    END""",
    """CREATE TRIGGER message_removed AFTER DELETE ON message WHEN old.state <> 'streaming' BEGIN
        INSERT INTO message_text(message_text, rowid, content) VALUES ('delete', old.id, old.content);
    END""",
    # One trigger, not two: the old text must leave the index before the new one enters.
    """CREATE TRIGGER message_changed AFTER UPDATE OF content, state ON message
        WHEN old.state <> 'streaming' OR new.state <> 'streaming' BEGIN
        INSERT INTO message_text(message_text, rowid, content)
            SELECT 'delete', old.id, old.content WHERE old.state <> 'streaming';
        INSERT INTO message_text(rowid, content)
            SELECT new.id, new.content WHERE new.state <> 'streaming';
    END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
)

_VERSION_2 = (
    "ALTER TABLE message ADD COLUMN excluded INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE message ADD COLUMN kind TEXT NOT NULL DEFAULT 'message'",
)

_VERSION_3 = (
    "ALTER TABLE message ADD COLUMN card TEXT",  # where a reply came from, as JSON: localchat.card
    "ALTER TABLE conversation ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",  # never leaves this machine
)

# In order; the store's version is how many of them it has been through. A migration only adds: a program
# of the version before may have the store open at this moment.
MIGRATIONS = (_VERSION_1, _VERSION_2, _VERSION_3)

_PRAGMAS = (
    "foreign_keys = ON",
    "synchronous = NORMAL",  # survives the death of the process; a power cut may cost the last moments
    "secure_delete = ON",  # a deleted conversation is overwritten, not only forgotten
    "temp_store = MEMORY",  # sorting must not spill what was said into a temporary file
)


def open_store(path: Path | None) -> sqlite3.Connection:
    """A connection to the store at ``path``, created or migrated as needed; None keeps it in memory.

    Usable from any thread, one at a time. Reads a few header values only: the
    time taken does not depend on what is stored.
    """
    if path is not None:
        _make_private(path)
    connection = sqlite3.connect(
        path or ":memory:", timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        connection.row_factory = sqlite3.Row
        _refuse_what_is_not_ours(connection, path)
        _configure(connection)
        _migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    """File 0600; a folder made here 0700. An existing folder may be shared: its mode is not ours."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        with suppress(FileExistsError):  # another process was faster
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(0, "it is not readable and writable for you")
    # By path: opening the file and closing it again would drop SQLite's locks on it in this process.
    if path.is_file() and path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _refuse_what_is_not_ours(connection: sqlite3.Connection, path: Path | None) -> None:
    """Only reads, so that whatever the file is stays as it was."""
    if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        return
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise HistoryError(f"{path} is a database of another program.", "Choose another file.")
    version = _pragma(connection, "user_version")
    if version > len(MIGRATIONS):
        raise HistoryError(
            f"{path} was written by a newer localchat (store version {version}; "
            f"this one reads up to {len(MIGRATIONS)}).",
            "Update localchat, or choose another file.",
        )


def _configure(connection: sqlite3.Connection) -> None:
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")
    _enter_wal(connection)


def _enter_wal(connection: sqlite3.Connection) -> None:
    """Switching a new file to WAL does not wait for other processes as all else does: wait here."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection) -> None:
    """All missing steps in one transaction: the store is at its old version or at the new one."""
    if _pragma(connection, "user_version") == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    # Read again: another process may have migrated while this one waited for its turn.
    for step in MIGRATIONS[_pragma(connection, "user_version") :]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute("COMMIT")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
