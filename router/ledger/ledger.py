"""The record of every answer: written behind the answer's back, read by those who ask.

Owns the one writer, a thread that starts with the first entry, and what happens when it cannot write:
entries wait for the next try, the trouble is told once, and no answer is ever held up or lost for it.
Knows nothing of prompts, policies or screens.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import astuple
from pathlib import Path
from typing import Any, Self

from router.errors import LedgerError
from router.ledger.entry import Entry, Label, LabelName, entry_from_json, entry_to_json
from router.ledger.file import open_ledger, plain_errors
from router.ledger.totals import COLUMNS, Totals

MOST_WAITING = 1000  # what cannot be written for so long is dropped, the oldest first, and counted
CLOSING_S = 5.0  # the longest that closing waits for the writer

_COLUMNS = """id, started_at, conversation_id, answered_by, is_simulated, left_the_machine, prompt_tokens,
    completion_tokens, total_s, payload_bytes, cost_usd, avoided_usd, body, prompt, answer"""
_INSERT = f"INSERT OR IGNORE INTO entry({_COLUMNS}) VALUES ({', '.join('?' * len(_COLUMNS.split(',')))})"
_LABELS = "(SELECT json_group_array(json_array(name, at)) FROM label WHERE entry_id = entry.id)"


class Ledger:
    """The record at ``path``, made with the first entry. Safe from any thread; programs may share it.

    ``record`` and ``feedback`` return at once and raise nothing. The others read, and raise LedgerError.
    """

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now
        self._changed = threading.Condition()
        self._waiting: deque[Entry | tuple[str, Label]] = deque()
        self._thread: threading.Thread | None = None
        self._stopping = self._due = False
        self._trouble = self._told = ""
        self._dropped = 0

    # -- writing

    def record(self, entry: Entry) -> str:
        """Its id, at once; it is on disk a moment later."""
        self._put(entry)
        return entry.id

    def feedback(self, entry_id: str, label: LabelName) -> None:
        """What a person says of an answer: a label to learn from."""
        self._put((entry_id, Label(label, self._now())))

    def trouble(self) -> str:
        """What keeps entries from being written, once for each new trouble; "" without one."""
        with self._changed:
            new = self._trouble if self._trouble != self._told else ""
            self._told = self._trouble
            dropped = f" {self._dropped} answers are not in it." if new and self._dropped else ""
            return new + dropped

    def flush(self, timeout_s: float = CLOSING_S) -> bool:
        """Wait until all is written or one more try has failed; whether all is written."""
        with self._changed:
            self._due = bool(self._waiting)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._due, timeout_s)
            return not self._waiting

    def close(self) -> None:
        self.flush()
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread:
            self._thread.join(CLOSING_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _put(self, item: Entry | tuple[str, Label]) -> None:
        with self._changed:
            self._waiting.append(item)
            if len(self._waiting) > MOST_WAITING:
                self._waiting.popleft()
                self._dropped += 1
            self._due = True
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="ledger", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def _write(self) -> None:
        """The writer: all that waits in one transaction, whenever something is due."""
        connection: sqlite3.Connection | None = None
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._due or self._stopping)
                if not self._due:
                    break
                batch = list(self._waiting)
            trouble = ""
            try:
                with plain_errors(self._path):
                    connection = connection or open_ledger(self._path)
                    _insert(connection, batch)
            except LedgerError as error:
                trouble = str(error)
            except Exception as error:  # an entry that cannot be written must not stop those after it
                self._done(batch, f"An answer could not be recorded: {error}.")
                continue
            self._done([] if trouble else batch, trouble)
        if connection:
            connection.close()

    def _done(self, gone: list[Entry | tuple[str, Label]], trouble: str) -> None:
        done = set(map(id, gone))
        with self._changed:
            while self._waiting and id(self._waiting[0]) in done:
                self._waiting.popleft()
            self._due = bool(self._waiting) and not trouble
            self._trouble = trouble
            self._changed.notify_all()

    # -- reading

    def entries(
        self,
        *,
        limit: int | None = 50,
        since: float = 0.0,
        conversation_id: int | None = None,
        answered_by: str = "",
        with_texts: bool = False,
    ) -> list[Entry]:
        """The newest first; ``limit`` None for all. Texts are left out unless asked for."""
        chosen = "prompt, answer" if with_texts else "'', ''"
        sql = f"""SELECT body, {chosen}, {_LABELS} FROM entry WHERE started_at >= :since
            AND (:conversation IS NULL OR conversation_id = :conversation)
            AND (:source = '' OR answered_by = :source) ORDER BY started_at DESC, number DESC LIMIT :limit"""
        found = {"since": since, "conversation": conversation_id, "source": answered_by}
        return self._entries(sql, {**found, "limit": -1 if limit is None else limit})

    def entry(self, beginning: str) -> Entry:
        """The one whose id begins so. Raises LedgerError where none does, or several do."""
        escaped = beginning.lower().replace("\\", "").replace("%", "\\%").replace("_", "\\_")
        sql = f"SELECT body, prompt, answer, {_LABELS} FROM entry WHERE id LIKE :like ESCAPE '\\' LIMIT 2"
        found = self._entries(sql, {"like": f"{escaped}%"}) if beginning else []
        if len(found) == 1:
            return found[0]
        if found:
            raise LedgerError(f"Several entries begin with {beginning!r}.", "Give more of the id.")
        raise LedgerError(f"There is no entry {beginning!r}.", "`localchat log list` shows them.")

    def totals(self, *, since: float = 0.0, conversation_id: int | None = None) -> Totals:
        """Sums since a time (Unix seconds), of one conversation or all; what is not written yet counts."""
        sql = f"SELECT {COLUMNS} FROM entry WHERE started_at >= :since"
        sql += "" if conversation_id is None else " AND conversation_id = :conversation"
        with self._changed:
            waiting = [each for each in self._waiting if isinstance(each, Entry)]
        # The writer may be at it just now: what waits counts once, from memory.
        ids = {f"id{n}": each.id for n, each in enumerate(waiting)}
        sql += f" AND id NOT IN ({', '.join(f':{name}' for name in ids)})"
        rows = self._select(sql, {"since": since, "conversation": conversation_id, **ids})
        written = Totals(*rows[0]) if rows else Totals()
        return _sum(written, _of(waiting, since, conversation_id)) if waiting else written

    def _entries(self, sql: str, parameters: dict[str, Any]) -> list[Entry]:
        self.flush()
        rows = self._select(sql, parameters)
        try:
            return [
                entry_from_json(body, said, answer, _labels(labels)) for body, said, answer, labels in rows
            ]
        except ValueError as error:
            step = "Move the file away; the next answer begins a new one."
            raise LedgerError(f"The ledger in {self._path} cannot be read: {error}.", step) from error

    def _select(self, sql: str, parameters: dict[str, Any]) -> list[Any]:
        """On a connection of its own: readers never wait for the writer. Nothing is made by reading."""
        if not self._path.exists():
            return []
        with plain_errors(self._path), closing(open_ledger(self._path)) as connection:
            return [tuple(row) for row in connection.execute(sql, parameters)]


def _insert(connection: sqlite3.Connection, batch: list[Entry | tuple[str, Label]]) -> None:
    # IMMEDIATE: two processes that read first and write later would lock each other out.
    connection.execute("BEGIN IMMEDIATE")
    try:
        for item in batch:
            if isinstance(item, Entry):
                connection.execute(_INSERT, _row(item))
            else:
                entry_id, label = item
                connection.execute("INSERT INTO label VALUES (?, ?, ?)", (entry_id, label.name, label.at))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has rolled back by itself after some errors
            connection.execute("ROLLBACK")
        raise


def _labels(text: str) -> tuple[Label, ...]:
    return tuple(Label(name, at) for name, at in sorted(json.loads(text), key=lambda label: label[1]))


def _row(entry: Entry) -> tuple[Any, ...]:
    usage = entry.usage
    return (
        entry.id,
        entry.started_at,
        entry.conversation_id,
        entry.answered_by,
        entry.is_simulated,
        entry.left_the_machine,
        usage and usage.prompt_tokens,
        usage and usage.completion_tokens,
        entry.total_s,
        entry.payload_bytes,
        entry.cost_usd,
        entry.avoided_usd,
        _storable(entry_to_json(entry)),
        _storable(entry.prompt),
        _storable(entry.answer),
    )


def _storable(text: str) -> str:
    """SQLite has no place for lone surrogates."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _of(waiting: list[Entry], since: float, conversation_id: int | None) -> Totals:
    """The same sums, made by the same SQL, of entries that are in no file."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(f"CREATE TABLE entry({_COLUMNS})")
        for entry in waiting:
            if entry.started_at >= since and conversation_id in (None, entry.conversation_id):
                connection.execute(_INSERT, _row(entry))
        return Totals(*connection.execute(f"SELECT {COLUMNS} FROM entry").fetchone())


def _sum(one: Totals, other: Totals) -> Totals:
    return Totals(*(a + b for a, b in zip(astuple(one), astuple(other), strict=True)))
