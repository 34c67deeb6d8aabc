"""What opening, listing and reading cost, counted in steps and plans, not timed."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from localchat.history import History


def test_thousands_of_conversations_open_and_list_as_fast_as_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [0]

    def step() -> int:
        steps[0] += 1
        return 0

    def counting_connect(*args: Any, _connect: Callable[..., Any] = sqlite3.connect, **options: Any) -> Any:
        connection = _connect(*args, **options)
        connection.set_progress_handler(step, 1)
        return connection

    def open_and_list(conversations: int) -> int:
        path = tmp_path / f"{conversations}.db"
        with History(path) as history, history._db.transaction() as db:
            rows = [(f"t{n}", "", n, n, n) for n in range(conversations)]
            columns = "title, system, created_at, updated_at, leaf_id"
            db.executemany(f"INSERT INTO conversation({columns}) VALUES (?, ?, ?, ?, ?)", rows)
        with monkeypatch.context() as patched:
            patched.setattr(sqlite3, "connect", counting_connect)
            steps[0] = 0
            with History(path) as history:
                page = history.conversations(limit=5)
                assert len(history.conversations(5, (page[-1].updated_at, page[-1].id))) == 5
        return steps[0]

    assert open_and_list(10) == open_and_list(5000) > 0


EVERYDAY: list[Callable[[History], Any]] = [
    lambda history: history.conversations(),
    lambda history: history.conversations(50, (1.0, 1)),
    lambda history: history.latest(),
    lambda history: history.path(2),
    lambda history: history.path_tail(2, 10),
    lambda history: history.children(1, 1),
    lambda history: history.children(None, 1),
    lambda history: history.siblings(2),
    lambda history: history.leaf_below(1),
    lambda history: history.add(1, 2, "user", "hello"),
    lambda history: history.update(2, content="hello", state="done"),
    lambda history: history.draft(1),
    lambda history: history.search("hello"),
    lambda history: history.delete(1),
]


@pytest.mark.parametrize("act", EVERYDAY)
def test_no_everyday_query_reads_a_whole_table(act: Callable[[History], Any]) -> None:
    with History(None) as history:
        conversation = history.new_conversation()
        first = history.add(conversation.id, None, "user", "hello")
        history.add(conversation.id, first.id, "assistant", "hello")
        statements: list[str] = []
        history._db._sqlite.set_trace_callback(statements.append)
        act(history)
        history._db._sqlite.set_trace_callback(None)
        plan = [line for sql in statements for line in explained(history._db._sqlite, sql)]
    scans = [line for line in plan if line.startswith("SCAN") and "INDEX" not in line]
    assert [line for line in scans if line not in ("SCAN up", "SCAN below", "SCAN CONSTANT ROW")] == []
    assert plan


def explained(connection: sqlite3.Connection, sql: str) -> list[str]:
    if not sql.lstrip().startswith(("SELECT", "WITH", "INSERT INTO message(", "UPDATE", "DELETE")):
        return []
    return [row["detail"] for row in connection.execute("EXPLAIN QUERY PLAN " + sql)]
