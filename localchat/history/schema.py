"""How the store is laid out on disk.

Owns the schema and its migrations. Knows nothing of what is asked of the store; how such a file is
made, opened and brought up to date is :mod:`router.sqlite_file`'s business.
"""

from __future__ import annotations

from router.sqlite_file import FileKind

# Ids are AUTOINCREMENT so that one remembered by another process never comes to mean something else.
# content and reasoning come last: columns behind them would cost a walk through their pages.
# message.parent_id must not cascade: a thread of thousands would exceed SQLite's trigger depth of 1,000.
_VERSION_1 = (
    """CREATE TABLE conversation(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        created_at REAL NOT NULL,
        updated_at REAL NOT NULL,
        message_count INTEGER NOT NULL DEFAULT 0,
        leaf_id INTEGER,
        system TEXT NOT NULL)""",
    """CREATE INDEX conversation_by_time ON conversation(updated_at DESC, id DESC)
        WHERE leaf_id IS NOT NULL""",
    """CREATE TABLE message(
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation_id INTEGER NOT NULL REFERENCES conversation(id) ON DELETE CASCADE,
        parent_id INTEGER REFERENCES message(id) DEFERRABLE INITIALLY DEFERRED,
        role TEXT NOT NULL,
        state TEXT NOT NULL,
        model TEXT NOT NULL,
        created_at REAL NOT NULL,
        touched_at REAL NOT NULL,
        usage TEXT,
        timings TEXT,
        content TEXT NOT NULL,
        reasoning TEXT NOT NULL DEFAULT '')""",
    "CREATE INDEX message_by_parent ON message(parent_id)",
    "CREATE INDEX message_by_conversation ON message(conversation_id, parent_id)",
    "CREATE INDEX message_streaming ON message(id) WHERE state = 'streaming'",
    """CREATE TABLE draft(
        conversation_id INTEGER UNIQUE REFERENCES conversation(id) ON DELETE CASCADE,
        text TEXT NOT NULL)""",
    # Three-character tokens find any part of a word in any script, Chinese and Japanese included.
    """CREATE VIRTUAL TABLE message_text USING fts5(
        content, content='message', content_rowid='id', tokenize='trigram')""",
    # A message is indexed when it stops streaming: each partial save would otherwise index it all again.
    """CREATE TRIGGER message_added AFTER INSERT ON message WHEN new.state <> 'streaming' BEGIN
        INSERT INTO message_text(rowid, content) VALUES (new.id, new.content);
    END""",
    """CREATE TRIGGER message_removed AFTER DELETE ON message WHEN old.state <> 'streaming' BEGIN
        INSERT INTO message_text(message_text, rowid, content) VALUES ('delete', old.id, old.content);
    END""",
    # One trigger, not two: the old text must leave the index before the new one enters.
    """CREATE TRIGGER message_changed AFTER UPDATE OF content, state ON message
        WHEN old.state <> 'streaming' OR new.state <> 'streaming' BEGIN
        INSERT INTO message_text(message_text, rowid, content)
            SELECT 'delete', old.id, old.content WHERE old.state <> 'streaming';
        INSERT INTO message_text(rowid, content)
            SELECT new.id, new.content WHERE new.state <> 'streaming';
    END""",
)

_VERSION_2 = (
    "ALTER TABLE message ADD COLUMN excluded INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE message ADD COLUMN kind TEXT NOT NULL DEFAULT 'message'",
)

_VERSION_3 = (
    "ALTER TABLE message ADD COLUMN card TEXT",  # where a reply came from, as JSON: localchat.card
    "ALTER TABLE conversation ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0",  # never leaves this machine
)

MIGRATIONS = (_VERSION_1, _VERSION_2, _VERSION_3)

_PRAGMAS = (
    "foreign_keys = ON",
    "synchronous = NORMAL",  # survives the death of the process; a power cut may cost the last moments
    "secure_delete = ON",  # a deleted conversation is overwritten, not only forgotten
    "temp_store = MEMORY",  # sorting must not spill what was said into a temporary file
)

KIND = FileKind(0x6C636861, MIGRATIONS, _PRAGMAS, busy_timeout_s=5.0)  # "lcha"
