"""The ledger's file: its tables, and what its failures mean.

Owns the schema and the way from an SQLite error to a LedgerError; how such a file is made and opened
is :mod:`router.sqlite_file`'s business.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from router.errors import LedgerError
from router.sqlite_file import FileKind, Newer, NotOurs, open_file, primary_code

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
)
_PRAGMAS = (
    "synchronous = NORMAL",  # survives the death of the process; a power cut may cost the last moments
    "secure_delete = ON",
    "temp_store = MEMORY",
)
KIND = FileKind(0x6C636C67, (_VERSION_1,), _PRAGMAS, busy_timeout_s=2.0)  # "lclg"
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


OTHERWISE = "Start the program again; if it stays, move the file away."


@contextmanager
def plain_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except NotOurs:
        raise LedgerError(f"{path} is a database of another program.", "Move it away.") from None
    except Newer as error:
        raise LedgerError(
            f"{path} was written by a newer localchat (ledger version {error.version}; "
            f"this one reads up to {len(KIND.migrations)}).",
            "Update localchat, or move the file away.",
        ) from None
    except sqlite3.Error as error:
        step = _NEXT_STEPS.get(
            primary_code(error), "Start the program again; if it stays, move the file away."
        )
        raise LedgerError(f"The ledger in {path} cannot be used: {error}.", step) from error
    except OSError as error:
        step = _NEXT_STEPS[sqlite3.SQLITE_CANTOPEN]
        raise LedgerError(f"The ledger in {path} cannot be opened: {error.strerror}.", step) from error


def open_ledger(path: Path) -> sqlite3.Connection:
    """A connection to the file, created or migrated as needed. Raises what ``plain_errors`` turns over."""
    return open_file(path, KIND)
