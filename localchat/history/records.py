"""The values the history hands out, and how a row becomes one.

Owns the two dataclasses, the columns they are read from, and the rule that a
message nobody writes to any more was interrupted. Does not open the store and
does not know which rows are asked for.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, TypeVar

from localchat.card import Card
from localchat.card import from_json as card_from_json
from router.request import Role, Timings, Usage

State = Literal["done", "streaming", "interrupted", "stopped", "failed"]
"""streaming: being written now; interrupted: its writer died; stopped: the
reader stopped it; failed: it ended with an error. Partial text is kept in each."""
MessageKind = Literal["message", "summary"]

STREAMING_SILENCE_S = 5.0  # a stream is saved every 0.2 s; nothing for this long means its process is gone


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of the tree. Times are Unix seconds.

    ``excluded`` messages are shown but left out of what the model sees. ``card`` says where a
    reply came from, None where that was not kept.
    ``sibling_index`` counts from 0 among the ``sibling_count`` children of the
    same parent (or roots of the same conversation), in the order they were added.
    """

    id: int
    conversation_id: int
    parent_id: int | None
    role: Role
    content: str
    reasoning: str
    state: State
    model: str
    created_at: float
    excluded: bool
    kind: MessageKind
    usage: Usage | None
    timings: Timings | None
    sibling_index: int
    sibling_count: int
    card: Card | None = None


@dataclass(frozen=True, slots=True)
class ConversationInfo:
    """A conversation without its messages. Times are Unix seconds.

    ``system`` is the system prompt; ``message_count`` counts every branch;
    ``leaf_id`` is the message the conversation was last at, None before the first.
    A ``pinned`` conversation is answered on this machine only.
    """

    id: int
    title: str
    system: str
    created_at: float
    updated_at: float
    message_count: int
    leaf_id: int | None
    pinned: bool = False


CONVERSATION_COLUMNS = "id, title, system, created_at, updated_at, message_count, leaf_id, pinned"

MESSAGE_COLUMNS = """
    m.id, m.conversation_id, m.parent_id, m.role, m.content, m.reasoning, m.state, m.model,
    m.created_at, m.touched_at, m.excluded, m.kind, m.usage, m.timings, m.card,
    (SELECT count(*) FROM message AS s WHERE s.conversation_id = m.conversation_id
        AND s.parent_id IS m.parent_id AND s.id < m.id) AS sibling_index,
    (SELECT count(*) FROM message AS s WHERE s.conversation_id = m.conversation_id
        AND s.parent_id IS m.parent_id) AS sibling_count"""


def conversation_from(row: sqlite3.Row) -> ConversationInfo:
    return replace(ConversationInfo(*row), pinned=bool(row["pinned"]))


def message_from(row: sqlite3.Row, now: float) -> StoredMessage:
    """``now`` in Unix seconds decides whether a stream is still alive."""
    return StoredMessage(
        id=row["id"],
        conversation_id=row["conversation_id"],
        parent_id=row["parent_id"],
        role=row["role"],
        content=row["content"],
        reasoning=row["reasoning"],
        state=_state_at(now, row["state"], row["touched_at"]),
        model=row["model"],
        created_at=row["created_at"],
        excluded=bool(row["excluded"]),
        kind=row["kind"],
        usage=from_json(Usage, row["usage"]),
        timings=from_json(Timings, row["timings"]),
        card=card_from_json(row["card"]) if row["card"] else None,
        sibling_index=row["sibling_index"],
        sibling_count=row["sibling_count"],
    )


def _state_at(now: float, stored: State, touched_at: float) -> State:
    # abs(): a clock set back must not keep a dead stream alive until it has caught up.
    silent = abs(now - touched_at) > STREAMING_SILENCE_S
    return "interrupted" if stored == "streaming" and silent else stored


Figures = TypeVar("Figures", Usage, Timings)


def as_json(figures: Usage | Timings | None) -> str | None:
    return None if figures is None else json.dumps(asdict(figures))


def from_json(kind: type[Figures], text: str | None) -> Figures | None:
    """Fields this program does not know, written by another version of it, are left aside."""
    if text is None:
        return None
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in json.loads(text).items() if name in known})
