"""The conversations of a person: what may be asked of the store and what it keeps true.

Owns the tree: messages point to their parent, editing and regenerating add
siblings, and only deleting a whole conversation removes anything. A History
may be used from any thread; several processes may share a file, each write
being one short transaction.
Does not know models, screens, or when to save.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from localchat.card import Card
from localchat.card import to_json as card_to_json
from localchat.errors import HistoryError
from localchat.history.connection import Connection, Parameters, Value
from localchat.history.records import (
    CONVERSATION_COLUMNS,
    MESSAGE_COLUMNS,
    ConversationInfo,
    MessageKind,
    State,
    StoredMessage,
    as_json,
    conversation_from,
    message_from,
)
from localchat.history.search import SearchHit, hit_from, queries_for, words_of
from localchat.history.text import one_line, storable, title_from
from router.request import Role, Timings, Usage


class History:
    """The store at ``path``, created when missing; with None, in memory and gone with the object.

    ``now`` gives Unix seconds. Every method may raise HistoryError: the store
    cannot be read or written, or what an id names is gone. Text is kept as
    given, except that lone surrogates become U+FFFD.
    """

    def __init__(self, path: Path | None, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._db = Connection(path)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Conversations

    def new_conversation(self, title: str = "", system: str = "") -> ConversationInfo:
        """It is listed from its first message on: an empty one leaves no trace to look at."""
        at = self._now()
        with self._db.transaction() as db:
            new_id = db.execute(
                "INSERT INTO conversation(title, system, created_at, updated_at) VALUES (?, ?, ?, ?)",
                (one_line(title), storable(system), at, at),
            ).lastrowid
        return self.conversation(new_id or 0)

    def conversation(self, conversation_id: int) -> ConversationInfo:
        sql = f"SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE id = ?"
        found = self._db.select(conversation_from, sql, (conversation_id,))
        return _only(found, "conversation", conversation_id)

    def conversations(
        self, limit: int = 50, before: tuple[float, int] | None = None
    ) -> list[ConversationInfo]:
        """Those with messages, last written first.

        ``before`` is ``(updated_at, id)`` of the last one of the page before.
        """
        page = "" if before is None else "AND (updated_at, id) < (?, ?)"
        sql = f"""SELECT {CONVERSATION_COLUMNS} FROM conversation WHERE leaf_id IS NOT NULL {page}
            ORDER BY updated_at DESC, id DESC LIMIT ?"""
        return self._db.select(conversation_from, sql, (*(before or ()), limit))

    def latest(self) -> ConversationInfo | None:
        """The conversation last written to, None when there is none with messages."""
        return next(iter(self.conversations(limit=1)), None)

    def rename(self, conversation_id: int, title: str) -> None:
        """Keeps ``title`` as one line; its place in the list stays."""
        self._change_conversation(conversation_id, "title = ?", one_line(title))

    def set_system(self, conversation_id: int, text: str) -> None:
        self._change_conversation(conversation_id, "system = ?", storable(text))

    def pin(self, conversation_id: int, pinned: bool) -> None:
        """Whether the conversation is answered on this machine only."""
        self._change_conversation(conversation_id, "pinned = ?", pinned)

    def set_leaf(self, conversation_id: int, message_id: int) -> None:
        """Where the conversation resumes; its place in the list stays."""
        with self._db.transaction() as db:
            _require_member(db, conversation_id, message_id)
            db.execute("UPDATE conversation SET leaf_id = ? WHERE id = ?", (message_id, conversation_id))

    def delete(self, conversation_id: int) -> None:
        """Removes the conversation with all its branches and its draft, for good."""
        with self._db.transaction() as db:
            deleted = db.execute("DELETE FROM conversation WHERE id = ?", (conversation_id,))
            _require_one(deleted, "conversation", conversation_id)

    def _change_conversation(self, conversation_id: int, assignment: str, value: str | bool) -> None:
        with self._db.transaction() as db:
            changed = db.execute(
                f"UPDATE conversation SET {assignment} WHERE id = ?", (value, conversation_id)
            )
            _require_one(changed, "conversation", conversation_id)

    # Writing messages

    def add(
        self,
        conversation_id: int,
        parent_id: int | None,
        role: Role,
        content: str,
        *,
        state: State = "done",
        model: str = "",
        kind: MessageKind = "message",
    ) -> StoredMessage:
        """A new child of ``parent_id`` (None: a root), where the conversation now is.

        An untitled conversation takes its title from its first message by the user.
        """
        at = self._now()
        title = title_from(content) if role == "user" else ""
        with self._db.transaction() as db:
            if parent_id is not None:
                _require_member(db, conversation_id, parent_id)
            counted = db.execute(
                """UPDATE conversation SET message_count = message_count + 1, updated_at = ?,
                    title = CASE WHEN title = '' THEN ? ELSE title END WHERE id = ?""",
                (at, title, conversation_id),
            )
            _require_one(counted, "conversation", conversation_id)
            new_id = db.execute(
                """INSERT INTO message(conversation_id, parent_id, role, content, state, model, kind,
                    created_at, touched_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                (conversation_id, parent_id, role, storable(content), state, storable(model), kind, at, at),
            ).lastrowid
            db.execute("UPDATE conversation SET leaf_id = ? WHERE id = ?", (new_id, conversation_id))
        return self.message(new_id or 0)

    def update(
        self,
        message_id: int,
        *,
        content: str,
        reasoning: str = "",
        state: State,
        model: str = "",
        usage: Usage | None = None,
        timings: Timings | None = None,
        card: Card | None = None,
    ) -> None:
        """Replaces the text; a model given as "" and what is given as None stay as they are.

        Cheap while ``state`` is "streaming": the text is indexed, and the
        conversation moves to the top of the list, with the first other state.
        """
        at = self._now()
        texts, figures = (
            (storable(content), storable(reasoning)),
            (as_json(usage), as_json(timings)),
        )
        with self._db.transaction() as db:
            updated = db.execute(
                """UPDATE message SET content = ?, reasoning = ?, usage = coalesce(?, usage),
                    timings = coalesce(?, timings), card = coalesce(?, card),
                    model = coalesce(nullif(?, ''), model), state = ?, touched_at = ? WHERE id = ?""",
                (
                    *texts,
                    *figures,
                    card and storable(card_to_json(card)),
                    storable(model),
                    state,
                    at,
                    message_id,
                ),
            )
            _require_one(updated, "message", message_id)
            if state != "streaming":
                db.execute(
                    """UPDATE conversation SET updated_at = ?
                        WHERE id = (SELECT conversation_id FROM message WHERE id = ?)""",
                    (at, message_id),
                )

    def set_excluded(self, message_ids: Iterable[int], excluded: bool) -> None:
        """Whether messages are left out of what the model sees; all of them or, on an error, none."""
        with self._db.transaction() as db:
            for message_id in message_ids:
                changed = db.execute("UPDATE message SET excluded = ? WHERE id = ?", (excluded, message_id))
                _require_one(changed, "message", message_id)

    # Reading messages

    def message(self, message_id: int) -> StoredMessage:
        return _only(self._messages("FROM message AS m WHERE m.id = ?", (message_id,)), "message", message_id)

    def path(self, message_id: int) -> list[StoredMessage]:
        """From the root to the message, both included."""
        return self.path_tail(message_id, limit=-1)

    def path_tail(self, message_id: int, limit: int) -> list[StoredMessage]:
        """The last ``limit`` (at least 1) messages of the path, oldest first."""
        rest = """FROM up JOIN message AS m USING (id) ORDER BY up.height DESC"""
        climb = """WITH RECURSIVE up(id, parent_id, height) AS (
            SELECT id, parent_id, 0 FROM message WHERE id = ?
            UNION ALL
            SELECT m.id, m.parent_id, height + 1 FROM up JOIN message AS m ON m.id = up.parent_id
            LIMIT ?)"""
        messages = self._messages(rest, (message_id, limit), before=climb)
        _only(messages[-1:], "message", message_id)
        return messages

    def children(self, message_id: int | None, conversation_id: int) -> list[StoredMessage]:
        """In the order they were added; the roots of the conversation when ``message_id`` is None."""
        where = "FROM message AS m WHERE m.conversation_id = ? AND m.parent_id IS ? ORDER BY m.id"
        return self._messages(where, (conversation_id, message_id))

    def siblings(self, message_id: int) -> list[StoredMessage]:
        """The message itself among those that share its parent, in the order they were added."""
        message = self.message(message_id)
        return self.children(message.parent_id, message.conversation_id)

    def tree(self, conversation_id: int) -> list[StoredMessage]:
        """Every message of every branch, in the order they were added."""
        where = "FROM message AS m WHERE m.conversation_id = ? ORDER BY m.id"
        return self._messages(where, (conversation_id,))

    def leaf_below(self, message_id: int) -> int:
        """The leaf under the message (perhaps itself) that was written to last."""
        sql = """WITH RECURSIVE below(id) AS (
                SELECT id FROM message WHERE id = ?
                UNION ALL
                SELECT m.id FROM below JOIN message AS m ON m.parent_id = below.id)
            SELECT m.id FROM below JOIN message AS m USING (id)
            WHERE NOT EXISTS (SELECT 1 FROM message AS child WHERE child.parent_id = m.id)
            ORDER BY m.touched_at DESC, m.id DESC LIMIT 1"""
        return _only(self._db.select(lambda row: int(row["id"]), sql, (message_id,)), "message", message_id)

    def search(self, text: str, limit: int = 50) -> list[SearchHit]:
        """The newest messages, in any conversation and branch, that hold every word of ``text``."""
        words = words_of(text)
        if not words:
            return []
        hits = [
            hit
            for sql, parameters in queries_for(words, limit)
            for hit in self._db.select(lambda row: hit_from(row, words), sql, parameters)
        ]
        return sorted(hits, key=lambda hit: hit.message_id, reverse=True)[:limit]

    # Drafts

    def draft(self, conversation_id: int | None) -> str:
        """What was typed but not sent, ``""`` for nothing. None: before there is a conversation."""
        sql = "SELECT text FROM draft WHERE conversation_id IS ?"
        return next(iter(self._db.select(lambda row: str(row["text"]), sql, (conversation_id,))), "")

    def save_draft(self, conversation_id: int | None, text: str) -> None:
        if conversation_id is not None:
            self.conversation(conversation_id)
        with self._db.transaction() as db:
            db.execute("DELETE FROM draft WHERE conversation_id IS ?", (conversation_id,))
            if text:
                db.execute("INSERT INTO draft VALUES (?, ?)", (conversation_id, storable(text)))

    def _messages(self, rest: str, parameters: Parameters, before: str = "") -> list[StoredMessage]:
        now = self._now()
        sql = f"{before} SELECT {MESSAGE_COLUMNS} {rest}"
        return self._db.select(lambda row: message_from(row, now), sql, parameters)


def _only(found: list[Value], what: str, wanted_id: int) -> Value:
    if not found:
        raise _gone(what, wanted_id)
    return found[0]


def _require_one(cursor: sqlite3.Cursor, what: str, wanted_id: int) -> None:
    if cursor.rowcount == 0:
        raise _gone(what, wanted_id)


def _require_member(db: sqlite3.Connection, conversation_id: int, message_id: int) -> None:
    sql = "SELECT 1 FROM message WHERE id = ? AND conversation_id = ?"
    if not db.execute(sql, (message_id, conversation_id)).fetchone():
        raise _gone("message", message_id, f" in conversation {conversation_id}")


def _gone(what: str, wanted_id: int, where: str = "") -> HistoryError:
    return HistoryError(
        f"There is no {what} {wanted_id}{where}.",
        "It may have been deleted elsewhere; choose another conversation.",
    )
