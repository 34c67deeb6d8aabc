"""How the answers lie on disk: the file, its permissions, its tables, and what its failures mean.

Owns one connection and the way from an SQLite error to CacheUnavailable with a next step.
A file that is not ours, newer or corrupt is reported and left as it is.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from router.errors import CacheUnavailable
from router.sqlite_file import is_empty, make_private, pragma, primary_code

APPLICATION_ID = 0x6C636163  # "lcac": tells our files from any other SQLite database
VERSION = 1
BUSY_TIMEOUT_S = 2.0  # another program's longest transaction takes milliseconds

_TABLES = (
    # AUTOINCREMENT: an id that was rejected or forgotten never comes to name another answer.
    """CREATE TABLE entry(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        partition BLOB NOT NULL,
        exact BLOB NOT NULL UNIQUE,
        profile TEXT NOT NULL,
        provider TEXT NOT NULL,
        model TEXT NOT NULL,
        question TEXT NOT NULL,
        kind TEXT NOT NULL,
        created_at REAL NOT NULL,
        expires_at REAL NOT NULL,
        used_at REAL NOT NULL,
        uses INTEGER NOT NULL DEFAULT 0,
        bytes INTEGER NOT NULL,
        prompt_tokens INTEGER NOT NULL,
        completion_tokens INTEGER NOT NULL,
        cost_usd REAL,
        embedder TEXT,
        vector BLOB,
        answer TEXT NOT NULL)""",
    "CREATE INDEX entry_by_partition ON entry(partition, id) WHERE vector IS NOT NULL",
    "CREATE INDEX entry_by_use ON entry(used_at, bytes)",
    "CREATE INDEX entry_by_expiry ON entry(expires_at)",
    # The sum is kept, not computed: adding up 100,000 rows for every answer would take milliseconds.
    "CREATE TABLE total(bytes INTEGER NOT NULL)",
    "INSERT INTO total VALUES (0)",
    """CREATE TRIGGER entry_added AFTER INSERT ON entry BEGIN
        UPDATE total SET bytes = bytes + new.bytes; END""",
    """CREATE TRIGGER entry_removed AFTER DELETE ON entry BEGIN
        UPDATE total SET bytes = bytes - old.bytes; END""",
    # One row a semantic hit: what the promise is held against. Without text, so it may outlive the entry.
    """CREATE TABLE verdict(
        id INTEGER PRIMARY KEY,
        entry INTEGER NOT NULL,
        at REAL NOT NULL,
        similarity REAL NOT NULL,
        threshold REAL NOT NULL,
        rules TEXT NOT NULL,
        wrong INTEGER NOT NULL DEFAULT 0)""",
    "CREATE INDEX verdict_by_rules ON verdict(rules, wrong)",
    "CREATE TABLE count(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {VERSION}",
)

_PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = NORMAL",  # survives the death of the process; a power cut may cost the last answers
    "secure_delete = ON",  # what is forgotten is overwritten
    "temp_store = MEMORY",
    "cache_size = -4000",
)

_MOVE_AWAY = "It was left untouched: `localchat cache purge` starts a new one."
_NEXT_STEPS = {
    sqlite3.SQLITE_FULL: "Free some disk space; what was kept before is intact.",
    sqlite3.SQLITE_READONLY: "Make the file and its folder writable for you.",
    sqlite3.SQLITE_PERM: "Make the file and its folder readable for you.",
    sqlite3.SQLITE_CANTOPEN: "Check that its folder exists and is writable for you.",
    sqlite3.SQLITE_BUSY: "Another program keeps it locked; close that one.",
    sqlite3.SQLITE_CORRUPT: _MOVE_AWAY,
    sqlite3.SQLITE_NOTADB: _MOVE_AWAY,
}
_UNREADABLE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    """Turns what SQLite and the file system raise into CacheUnavailable with a next step."""
    try:
        yield
    except sqlite3.Error as error:
        code = primary_code(error)
        step = _NEXT_STEPS.get(code, "Start the program again; if it stays, `localchat cache purge`.")
        message = f"The cache {path} cannot be used: {error}."
        raise CacheUnavailable(message, step, unreadable=code in _UNREADABLE) from error
    except OSError as error:
        step = _NEXT_STEPS[sqlite3.SQLITE_CANTOPEN]
        raise CacheUnavailable(f"The cache {path} cannot be opened: {error.strerror}.", step) from error


def connect(path: Path) -> sqlite3.Connection:
    """Opens, and where need be makes, the file at ``path``. Raises CacheUnavailable.

    One that cannot be written is opened for reading: what it holds is served, nothing added.
    """
    with plain_errors(path):
        writable = _make_private(path)
        mode = "rw" if writable else "ro"
        connection = sqlite3.connect(
            f"{path.absolute().as_uri()}?mode={mode}",
            uri=True,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            connection.row_factory = sqlite3.Row
            _prepare(connection, path, writable)
        except BaseException:
            connection.close()
            raise
        return connection


def _make_private(path: Path) -> bool:
    """Whether the file can be written; SQLite writes beside it, too."""
    if path.exists() and not os.access(path, os.W_OK):
        return False
    make_private(path)
    return os.access(path.parent, os.W_OK)


def _prepare(connection: sqlite3.Connection, path: Path, writable: bool) -> None:
    if is_empty(connection) and writable:
        _create(connection)
    if pragma(connection, "application_id") != APPLICATION_ID:
        raise CacheUnavailable(f"{path} is a database of another program.", "Move it away.")
    if pragma(connection, "user_version") != VERSION:
        raise CacheUnavailable(
            f"{path} was written by another version of localchat.",
            "`localchat cache purge` starts anew.",
            unreadable=True,
        )
    for setting in _PRAGMAS if writable else ():
        connection.execute(f"PRAGMA {setting}")


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    if is_empty(connection):  # else another process has made it between our look and our lock
        for statement in _TABLES:
            connection.execute(statement)
    connection.execute("COMMIT")


def remove_files(path: Path) -> None:
    """The store and its side files, whatever state they are in. Raises CacheUnavailable."""
    with plain_errors(path):
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
