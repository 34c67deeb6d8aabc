"""A SQLite file of ours: private to its user, versioned, shared between programs.

Owns how such a file is made, opened and brought up to date. A file is only written to after it has
proved to be one of ours and not newer than this program: what is corrupt or foreign is reported,
never touched. Knows no table, and raises what SQLite and the file system raise beside its own two.
"""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PRIMARY_CODE = 0xFF  # the low byte of an extended result code: https://www.sqlite.org/rescode.html


class NotOurs(Exception):
    """It is a database of another program."""


class Newer(Exception):
    """It was written by a newer version of this program."""

    def __init__(self, version: int) -> None:
        super().__init__(version)
        self.version = version


@dataclass(frozen=True, slots=True)
class FileKind:
    """``application_id`` tells our files from any other database. ``migrations`` in order: a file's
    version is how many of them it has been through, and each only adds, for a program of the version
    before may have the file open at this moment. ``pragmas`` are set for every connection."""

    application_id: int
    migrations: tuple[tuple[str, ...], ...]
    pragmas: tuple[str, ...]
    busy_timeout_s: float


def open_file(path: Path | None, kind: FileKind) -> sqlite3.Connection:
    """A connection to the file, created or migrated as needed; None keeps it in memory.

    Usable from any thread, one at a time. Reads a few header values only: the time taken does not
    depend on what is stored. Raises NotOurs, Newer, sqlite3.Error and OSError.
    """
    if path is not None:
        make_private(path)
    connection = sqlite3.connect(
        path or ":memory:", timeout=kind.busy_timeout_s, isolation_level=None, check_same_thread=False
    )
    try:
        connection.row_factory = sqlite3.Row
        _refuse_what_is_not_ours(connection, kind)
        for pragma in kind.pragmas:
            connection.execute(f"PRAGMA {pragma}")
        _enter_wal(connection, kind.busy_timeout_s)
        _migrate(connection, kind)
    except BaseException:
        connection.close()
        raise
    return connection


def make_private(path: Path) -> None:
    """File 0600; a folder made here 0700. An existing folder may be shared: its mode is not ours.

    Raises PermissionError where it cannot be read and written.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        with suppress(FileExistsError):  # another process was faster
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if not os.access(path, os.R_OK | os.W_OK):
        raise PermissionError(0, "it is not readable and writable for you")
    # By path: opening the file and closing it again would drop SQLite's locks on it in this process.
    if path.is_file() and path.stat().st_mode & 0o077:
        path.chmod(0o600)


def primary_code(error: sqlite3.Error) -> int:
    """SQLite's primary result code, 0 for what never reached SQLite."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE


def pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def is_empty(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None


def _refuse_what_is_not_ours(connection: sqlite3.Connection, kind: FileKind) -> None:
    """Only reads, so that whatever the file is stays as it was."""
    if is_empty(connection):
        return
    if pragma(connection, "application_id") != kind.application_id:
        raise NotOurs
    version = pragma(connection, "user_version")
    if version > len(kind.migrations):
        raise Newer(version)


def _enter_wal(connection: sqlite3.Connection, patience_s: float) -> None:
    """Switching a new file to WAL does not wait for other processes as all else does: wait here."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _migrate(connection: sqlite3.Connection, kind: FileKind) -> None:
    """All missing steps in one transaction: the file is at its old version or at the new one."""
    if pragma(connection, "user_version") == len(kind.migrations):
        return
    connection.execute("BEGIN IMMEDIATE")
    # Read again: another process may have migrated while this one waited for its turn.
    for step in kind.migrations[pragma(connection, "user_version") :]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {kind.application_id}")
    connection.execute(f"PRAGMA user_version = {len(kind.migrations)}")
    connection.execute("COMMIT")
