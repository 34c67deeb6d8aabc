"""The ledger's file: private, versioned, shared between programs, and what its failures mean.

Owns permissions, schema and migrations, and the way from an SQLite error to a LedgerError. A file is
only written to after it has proved to be one of ours and not newer than this program.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from router.errors import LedgerError

APPLICATION_ID = 0x6C636C67  # "lclg": tells our files from any other SQLite database
BUSY_TIMEOUT_S = 2.0

# What totals are made of stands in columns of its own; all else is in body, which a newer program may add to.
_VERSION_1 = (
    """CREATE TABLE entry(
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        id TEXT NOT NULL UNIQUE,
        started_at REAL NOT NULL,
        conversation_id INTEGER,
        answered_by TEXT NOT NULL,
        is_simulated INTEGER NOT NULL,
        left_the_machine INTEGER NOT NULL,
        prompt_tokens INTEGER,
        completion_tokens INTEGER,
        total_s REAL,
        payload_bytes INTEGER,
        cost_usd REAL,
        avoided_usd REAL,
        body TEXT NOT NULL,
        prompt TEXT NOT NULL,
        answer TEXT NOT NULL)""",
    "CREATE INDEX entry_by_time ON entry(started_at)",
    "CREATE INDEX entry_by_conversation ON entry(conversation_id, started_at)",
    """CREATE TABLE label(
        entry_id TEXT NOT NULL,
        name TEXT NOT NULL,
        at REAL NOT NULL)""",
    "CREATE INDEX label_by_entry ON label(entry_id)",
    f"PRAGMA application_id = {APPLICATION_ID}",
)
MIGRATIONS = (_VERSION_1,)  # in order; each only adds, for a program of the version before may have it open

_PRAGMAS = (
    "synchronous = NORMAL",  # survives the death of the process; a power cut may cost the last moments
    "secure_delete = ON",
    "temp_store = MEMORY",
)
_NEXT_STEPS = {
    sqlite3.SQLITE_FULL: "Free some disk space; what was recorded before is intact.",
    sqlite3.SQLITE_READONLY: "Make the file and its folder writable for you.",
    sqlite3.SQLITE_PERM: "Make the file and its folder readable for you.",
    sqlite3.SQLITE_CANTOPEN: "Check that its folder exists and is writable for you.",
    sqlite3.SQLITE_BUSY: "Another program keeps it locked; close that one.",
    sqlite3.SQLITE_IOERR: "Check the disk; what was recorded before was not changed.",
    sqlite3.SQLITE_CORRUPT: "It was left untouched: copy it, try `sqlite3 FILE .recover`, or move it away.",
    sqlite3.SQLITE_NOTADB: "It was left untouched: move it away.",
}
_PRIMARY_CODE = 0xFF  # the low byte of an extended result code: https://www.sqlite.org/rescode.html


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        step = _NEXT_STEPS.get(code, "Start the program again; if it stays, move the file away.")
        raise LedgerError(f"The ledger in {path} cannot be used: {error}.", step) from error
    except OSError as error:
        step = _NEXT_STEPS[sqlite3.SQLITE_CANTOPEN]
        raise LedgerError(f"The ledger in {path} cannot be opened: {error.strerror}.", step) from error


def open_ledger(path: Path) -> sqlite3.Connection:
    """A connection to the file, created or migrated as needed. Raises what ``plain_errors`` turns over."""
    _make_private(path)
    connection = sqlite3.connect(path, BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        _refuse_what_is_not_ours(connection, path)
        for pragma in _PRAGMAS:
            connection.execute(f"PRAGMA {pragma}")
        _enter_wal(connection)
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
    if path.is_file() and path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _refuse_what_is_not_ours(connection: sqlite3.Connection, path: Path) -> None:
    """Only reads, so that whatever the file is stays as it was."""
    if not connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
        return
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise LedgerError(f"{path} is a database of another program.", "Move it away.")
    version = _pragma(connection, "user_version")
    if version > len(MIGRATIONS):
        raise LedgerError(
            f"{path} was written by a newer localchat (ledger version {version}; "
            f"this one reads up to {len(MIGRATIONS)}).",
            "Update localchat, or move the file away.",
        )


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
    """All missing steps in one transaction: the file is at its old version or at the new one."""
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
