"""From what a person typed to a query, and from a found message to a snippet.

Owns the reading of search text: every word must occur, anywhere, in any case.
Nothing in it is an operator. Does not run queries.

The index holds runs of three characters, so it answers words of three and
more. Shorter words (most Chinese and Japanese ones among them) are looked for
in the text itself, newest message first.
Text behind a NUL is stored but not found: SQLite's text functions end there.
"""

from __future__ import annotations

import re
import sqlite3
from dataclasses import dataclass

from localchat.history.text import one_line, storable

INDEXED_CHARS = 3
# Bounds on what is looked for, far above what is typed: SQLite limits the size of an expression.
MAX_QUERY_CHARS = 1000
MAX_WORDS = 32
CONTEXT_CHARS = 60


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message that holds every word. ``created_at`` in Unix seconds.

    ``snippet`` is one line of plain text, each match between « and »; those
    two characters stand for nothing else in it.
    """

    conversation_id: int
    message_id: int
    title: str
    snippet: str
    created_at: float


def words_of(text: str) -> list[str]:
    """The words to look for, in order, each once; words beyond the bounds are dropped."""
    cleaned = storable(text)[:MAX_QUERY_CHARS].replace("\0", " ")
    return list(dict.fromkeys(cleaned.split()))[:MAX_WORDS]


Query = tuple[str, list[str | int]]


def queries_for(words: list[str], limit: int) -> list[Query]:
    """SELECTs with their parameters; each finds its newest ``limit`` messages, and no message is in two."""
    indexed = [word for word in words if len(word) >= INDEXED_CHARS]
    if not indexed:
        return [(_select("message", "message.id", _containing(words)), [*_patterns(words), limit])]
    short = [word for word in words if len(word) < INDEXED_CHARS]
    joined = "message_text JOIN message ON message.id = message_text.rowid"
    in_index = _select(joined, "message_text.rowid", ["message_text MATCH ?", *_containing(short)])
    # What is streaming, or was when its process died, is not in the index; it is little.
    partial = _select("message", "message.id", ["message.state = 'streaming'", *_containing(words)])
    return [
        (in_index, [" ".join(map(_quoted, indexed)), *_patterns(short), limit]),
        (partial, [*_patterns(words), limit]),
    ]


def _select(source: str, newest: str, conditions: list[str]) -> str:
    """``newest`` names the order ``source`` is read in: SQLite sorts nothing and stops at the limit."""
    return f"""
        SELECT message.conversation_id, message.id, conversation.title, message.content, message.created_at
        FROM {source} JOIN conversation ON conversation.id = message.conversation_id
        WHERE {" AND ".join(conditions)} ORDER BY {newest} DESC LIMIT ?"""


def hit_from(row: sqlite3.Row, words: list[str]) -> SearchHit:
    return SearchHit(
        row["conversation_id"], row["id"], row["title"], snippet(row["content"], words), row["created_at"]
    )


def snippet(content: str, words: list[str]) -> str:
    """One line around the first match in ``content``, every match in it marked."""
    longest_first = sorted(words, key=len, reverse=True)
    pattern = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")", re.IGNORECASE)
    first = pattern.search(content)
    middle = first.start() if first else 0
    start, end = max(0, middle - CONTEXT_CHARS), middle + CONTEXT_CHARS + (len(first[0]) if first else 0)
    parts = [part.translate(_OWN_MARKS) for part in pattern.split(content[start:end])]
    marked = "".join(f"«{part}»" if odd % 2 else part for odd, part in enumerate(parts))
    return ("…" if start else "") + one_line(marked) + ("…" if end < len(content) else "")


_OWN_MARKS = str.maketrans("«»", "‹›")


def _containing(words: list[str]) -> list[str]:
    return ["message.content LIKE ? ESCAPE '\\'"] * len(words)


def _patterns(words: list[str]) -> list[str]:
    return ["%" + re.sub(r"([\\%_])", r"\\\1", word) + "%" for word in words]


def _quoted(word: str) -> str:
    """An FTS5 string: between double quotes nothing but a double quote is special."""
    return '"' + word.replace('"', '""') + '"'
