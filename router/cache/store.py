"""The answers that were kept, in one SQLite file that several programs may use at a time.

Owns lifetime (an absolute expiry that no hit extends), eviction by bytes within the
transaction that adds, and the record of semantic hits and rejects. Not to be called from
the event loop, and from one thread at a time. Knows nothing of guards or thresholds.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time

from router.cache.embed import Vector
from router.cache.key import Key
from router.cache.schema import connect, plain_errors
from router.cache.threshold import Sample

MOST_BYTES = 256 * 1024 * 1024
CLOCK_SLACK_S = 60.0  # what a clock may be set back by without an answer from the future being refused

_COLUMNS = (
    "id, profile, provider, model, question, kind, created_at, expires_at, uses, "
    "prompt_tokens, completion_tokens, cost_usd, answer"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer that was kept. Times are Unix seconds; ``cost_usd`` is what it cost, None: unknown."""

    id: int
    profile: str
    provider: str
    model: str
    question: str
    kind: str
    created_at: float
    expires_at: float
    uses: int
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float | None
    answer: str


@dataclass(frozen=True, slots=True)
class NewEntry:
    """``vector`` None: found by exact repeats only. ``lifetime_s`` from now on."""

    key: Key
    profile: str
    provider: str
    model: str
    question: str
    answer: str
    kind: str
    lifetime_s: float
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    embedder: str = ""
    vector: Vector | None = None

    @property
    def nbytes(self) -> int:
        """Of the texts and the vector, and a round sum for the row around them."""
        texts = len(self.question.encode()) + len(self.answer.encode())
        return 300 + texts + (self.vector.nbytes if self.vector is not None else 0)


@dataclass(frozen=True, slots=True)
class Stats:
    entries: int
    nbytes: int
    expired: int
    exact_hits: int
    semantic_hits: int
    rejected: int
    misses: int
    avoided_usd: float


class Store:
    """Each method is one transaction. Raises CacheUnavailable."""

    def __init__(self, path: Path, *, most_bytes: int = MOST_BYTES, now: Callable[[], float] = time) -> None:
        self._path = path
        self._most_bytes = most_bytes
        self._now = now
        self._db = connect(path)

    def close(self) -> None:
        with plain_errors(self._path):
            self._db.close()

    # -- what a look-up reads

    def exact(self, key: Key) -> Entry | None:
        """The living answer to exactly this question."""
        return next(self._select("exact = ? AND partition = ?", (key.exact, key.partition)), None)

    def alive(self, entry_id: int) -> Entry | None:
        return next(self._select("id = ?", (entry_id,)), None)

    def vectors(self, partition: bytes, embedder: str, after: int = 0) -> tuple[list[int], list[bytes]]:
        """Ids above ``after`` in rising order, and their vectors, of one embedder only."""
        with plain_errors(self._path):
            rows = self._db.execute(
                """SELECT id, vector FROM entry WHERE partition = ? AND id > ? AND vector IS NOT NULL
                    AND embedder = ? ORDER BY id""",
                (partition, after, embedder),
            ).fetchall()
        return [row[0] for row in rows], [row[1] for row in rows]

    def count(self, partition: bytes) -> int:
        """How many vectors the partition has."""
        with plain_errors(self._path):
            sql = "SELECT count(*) FROM entry WHERE partition = ? AND vector IS NOT NULL"
            return int(self._db.execute(sql, (partition,)).fetchone()[0])

    def changes_of_others(self) -> int:
        """A number that differs once another connection has changed the file."""
        with plain_errors(self._path):
            return int(self._db.execute("PRAGMA data_version").fetchone()[0])

    def entries(self, limit: int = -1) -> list[Entry]:
        """The newest first; expired ones are left out."""
        return list(self._select("1", (), f"ORDER BY id DESC LIMIT {int(limit)}"))

    def _select(self, where: str, bound: Sequence[object], order: str = "") -> Iterator[Entry]:
        now = self._now()
        # From the future: the clock was set back, so its age, and whether it has expired, is unknown.
        sql = f"SELECT {_COLUMNS} FROM entry WHERE {where} AND expires_at > ? AND created_at <= ? {order}"
        with plain_errors(self._path):
            for row in self._db.execute(sql, (*bound, now, now + CLOCK_SLACK_S)):
                yield Entry(*row)

    # -- what is written

    def add(self, new: NewEntry) -> int | None:
        """Keeps an answer in the place of an older one to the same question; its id.

        None where it alone is larger than the store may be. Expired answers go first, then
        those not used for longest, until the rest fits.
        """
        if new.nbytes > self._most_bytes:
            return None
        now = self._now()
        with self._transaction() as db:
            db.execute("DELETE FROM entry WHERE exact = ? OR expires_at <= ?", (new.key.exact, now))
            self._make_room(db, new.nbytes)
            return db.execute(
                """INSERT INTO entry(partition, exact, profile, provider, model, question, kind, created_at,
                    expires_at, used_at, bytes, prompt_tokens, completion_tokens, cost_usd, embedder, vector,
                    answer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
                _row(new, now),
            ).lastrowid

    def _make_room(self, db: sqlite3.Connection, wanted: int) -> None:
        total = db.execute("SELECT bytes FROM total").fetchone()[0]
        over = total + wanted - self._most_bytes
        doomed = []
        for row in db.execute("SELECT id, bytes FROM entry ORDER BY used_at") if over > 0 else ():
            if over <= 0:
                break
            doomed.append((row["id"],))
            over -= row["bytes"]
        db.executemany("DELETE FROM entry WHERE id = ?", doomed)

    def used(self, entry: Entry, similarity: float = 1.0, threshold: float = 1.0, rules: str = "") -> None:
        """A hit was served; with ``rules`` (what decided) a semantic one, which may be rejected later."""
        now = self._now()
        with self._transaction() as db:
            db.execute("UPDATE entry SET uses = uses + 1, used_at = ? WHERE id = ?", (now, entry.id))
            if rules:
                db.execute(
                    "INSERT INTO verdict(entry, at, similarity, threshold, rules) VALUES (?, ?, ?, ?, ?)",
                    (entry.id, now, similarity, threshold, rules),
                )
            _add_up(db, "semantic hits" if rules else "exact hits")
            _add_up(db, "avoided picodollars", round((entry.cost_usd or 0.0) * 1e12))

    def missed(self) -> None:
        with self._transaction() as db:
            _add_up(db, "misses")

    def reject(self, entry_id: int) -> bool:
        """Takes the answer away and marks its last semantic hit as wrong; whether it was there."""
        with self._transaction() as db:
            db.execute(
                "UPDATE verdict SET wrong = 1 WHERE id = (SELECT max(id) FROM verdict WHERE entry = ?)",
                (entry_id,),
            )
            gone = db.execute("DELETE FROM entry WHERE id = ?", (entry_id,)).rowcount > 0
            if gone:
                _add_up(db, "rejected")
            return gone

    def forget(self, entry_id: int) -> bool:
        with self._transaction() as db:
            return db.execute("DELETE FROM entry WHERE id = ?", (entry_id,)).rowcount > 0

    def purge(self) -> int:
        """All answers, for good; the verdicts, which hold no text, stay. How many there were."""
        with self._transaction() as db:
            count = db.execute("DELETE FROM entry").rowcount
        with plain_errors(self._path):
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return count

    # -- the record

    def verdicts(self, rules: str) -> list[Sample]:
        """Semantic hits served under ``rules``; one that was not rejected counts as right."""
        with plain_errors(self._path):
            rows = self._db.execute("SELECT similarity, wrong FROM verdict WHERE rules = ?", (rules,))
            return [Sample(row[0], not row[1]) for row in rows]

    def stats(self) -> Stats:
        with plain_errors(self._path):
            entries = self._db.execute("SELECT count(*) FROM entry").fetchone()[0]
            dead = self._db.execute("SELECT count(*) FROM entry WHERE expires_at <= ?", (self._now(),))
            nbytes = self._db.execute("SELECT bytes FROM total").fetchone()[0]
            counts = dict(self._db.execute("SELECT name, value FROM count").fetchall())
            return Stats(
                entries=entries,
                nbytes=nbytes,
                expired=dead.fetchone()[0],
                exact_hits=counts.get("exact hits", 0),
                semantic_hits=counts.get("semantic hits", 0),
                rejected=counts.get("rejected", 0),
                misses=counts.get("misses", 0),
                avoided_usd=counts.get("avoided picodollars", 0) / 1e12,
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """All that is written within or, on any exception, nothing."""
        with plain_errors(self._path):
            # IMMEDIATE: two programs that read first and write later would lock each other out.
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # SQLite has rolled back by itself after some errors
                    self._db.execute("ROLLBACK")
                raise


def _row(new: NewEntry, now: float) -> tuple[object, ...]:
    vector = new.vector.astype("<f4").tobytes() if new.vector is not None else None
    return (
        new.key.partition, new.key.exact, new.profile, new.provider, new.model, new.question, new.kind,
        now, now + new.lifetime_s, now, new.nbytes, new.prompt_tokens, new.completion_tokens, new.cost_usd,
        new.embedder, vector, new.answer,
    )  # fmt: skip


def _add_up(db: sqlite3.Connection, name: str, amount: int = 1) -> None:
    db.execute(
        "INSERT INTO count VALUES (?, ?) ON CONFLICT(name) DO UPDATE SET value = value + excluded.value",
        (name, amount),
    )
