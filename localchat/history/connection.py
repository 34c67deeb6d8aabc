"""One connection for all threads of this process, and what its failures mean to a person.

Owns the lock, the transaction, and the way from an SQLite error to a
HistoryError with a next step. Knows nothing of tables.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from localchat.errors import HistoryError
from localchat.history.schema import KIND
from router.sqlite_file import Newer, NotOurs, open_file, primary_code

Bound = str | float | None
Parameters = Sequence[Bound] | Mapping[str, Bound]
Value = TypeVar("Value")

_NEXT_STEPS = {
    sqlite3.SQLITE_FULL: "Free some disk space and try again; what was saved before is intact.",
    sqlite3.SQLITE_READONLY: "Make the file and its folder writable for you, or use a private chat.",
    sqlite3.SQLITE_PERM: "Make the file and its folder readable for you, or use a private chat.",
    sqlite3.SQLITE_CANTOPEN: "Check that its folder exists and is writable for you, or use a private chat.",
    sqlite3.SQLITE_BUSY: "Another program keeps it locked; close that one and try again.",
    sqlite3.SQLITE_IOERR: "Check the disk, then try again; what was saved before was not changed.",
    sqlite3.SQLITE_CORRUPT: "It was left untouched: copy it, try `sqlite3 FILE .recover`, or move it away.",
    sqlite3.SQLITE_NOTADB: "It was left untouched: move it away, or choose another file.",
}

OTHERWISE = "Start the program again; if it stays, move the file away."


@contextmanager
def plain_errors(path: Path | None) -> Iterator[None]:
    """Turns what SQLite and the file system raise into a HistoryError with a next step."""
    place = f"in {path}" if path else "kept in memory"
    try:
        yield
    except NotOurs:
        raise HistoryError(f"{path} is a database of another program.", "Choose another file.") from None
    except Newer as error:
        raise HistoryError(
            f"{path} was written by a newer localchat (store version {error.version}; "
            f"this one reads up to {len(KIND.migrations)}).",
            "Update localchat, or choose another file.",
        ) from None
    except sqlite3.Error as error:
        step = _NEXT_STEPS.get(
            primary_code(error), "Start the program again; if it stays, move the file away."
        )
        raise HistoryError(f"The history {place} cannot be used: {error}.", step) from error
    except OSError as error:
        step = _NEXT_STEPS[sqlite3.SQLITE_CANTOPEN]
        raise HistoryError(f"The history {place} cannot be opened: {error.strerror}.", step) from error


class Connection:
    """Each method holds the lock until it is done. Raises HistoryError."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        with plain_errors(path):
            self._sqlite = open_file(path, KIND)

    def close(self) -> None:
        with self._lock, plain_errors(self._path):
            self._sqlite.close()

    def select(self, decode: Callable[[sqlite3.Row], Value], sql: str, parameters: Parameters) -> list[Value]:
        """Every row of the answer, decoded one by one: a long text need not outlive its row."""
        with self._lock, plain_errors(self._path):
            return [decode(row) for row in self._sqlite.execute(sql, parameters)]

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is written within or, on any exception, nothing."""
        with self._lock, plain_errors(self._path):
            # IMMEDIATE: two processes that read first and write later would lock each other out.
            self._sqlite.execute("BEGIN IMMEDIATE")
            try:
                yield self._sqlite
                self._sqlite.execute("COMMIT")
            except BaseException:
                if self._sqlite.in_transaction:  # SQLite has rolled back by itself after some errors
                    self._sqlite.execute("ROLLBACK")
                raise
