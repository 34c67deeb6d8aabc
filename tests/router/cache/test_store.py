"""The store: lifetime, eviction, several programs, and files that cannot be used."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from router.cache.key import Key
from router.cache.schema import BUSY_TIMEOUT_S, remove_files
from router.cache.store import NewEntry, Store
from router.cache.threshold import Sample
from router.errors import CacheUnavailable
from tests.router.cache.fakes import direction


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def key(text: str, partition: str = "p") -> Key:
    return Key(partition.encode() * 32, f"{partition}/{text}".encode(), text)


def new(text: str = "What is osmosis?", partition: str = "p", answer: str = "A flow.") -> NewEntry:
    vector = direction(text)
    return NewEntry(
        key(text, partition), "anna", "acme", "large-1", text, answer, "ordinary", 100.0,
        cost_usd=0.002, embedder="fake:1", vector=vector,
    )  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "answers.db"


def test_an_answer_comes_back_as_it_was_given(path: Path) -> None:
    store = Store(path)
    store.add(new(answer="A\x00 flow, 😀 …\n"))

    found = store.exact(key("What is osmosis?"))
    assert found is not None
    assert found.answer == "A\x00 flow, 😀 …\n"
    assert (found.provider, found.model, found.cost_usd, found.uses) == ("acme", "large-1", 0.002, 0)
    store.close()


def test_an_empty_cache_misses(path: Path) -> None:
    store = Store(path)
    assert store.exact(key("What is osmosis?")) is None
    assert store.vectors(b"p" * 32, "fake:1") == ([], [])
    store.close()


def test_the_file_is_for_its_owner_only(path: Path) -> None:
    store = Store(path)
    store.add(new())

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in path.parent.iterdir())
    store.close()


def test_no_hit_extends_a_lifetime(path: Path) -> None:
    clock = Clock()
    store = Store(path, now=clock)
    store.add(new())
    clock.now += 99
    found = store.exact(key("What is osmosis?"))
    assert found is not None
    store.used(found)
    clock.now += 1

    assert store.exact(key("What is osmosis?")) is None
    assert store.entries() == []
    store.close()


def test_when_the_clock_goes_back_what_seems_to_come_from_the_future_is_not_served(path: Path) -> None:
    clock = Clock()
    store = Store(path, now=clock)
    store.add(new())

    clock.now -= 30  # a correction of seconds is nothing
    assert store.exact(key("What is osmosis?"))
    clock.now -= 10_000
    assert store.exact(key("What is osmosis?")) is None
    clock.now += 10_030  # and it is served again once the clock is right
    assert store.exact(key("What is osmosis?"))
    store.close()


def test_eviction_keeps_within_the_bytes_and_takes_what_was_not_used_for_longest(path: Path) -> None:
    clock = Clock()
    size = new().nbytes
    store = Store(path, most_bytes=3 * size + 100, now=clock)
    for text in "abc":
        clock.now += 1
        store.add(new(f"What is {text}smosis?"[:16]))
    clock.now += 1
    oldest = store.exact(key("What is asmosis?"))
    assert oldest
    store.used(oldest)
    clock.now += 1
    store.add(new("What is dsmosis?"))

    assert store.exact(key("What is asmosis?"))
    assert store.exact(key("What is bsmosis?")) is None
    assert store.stats().nbytes <= 3 * size + 100
    store.close()


def test_what_is_larger_than_the_cache_is_not_kept(path: Path) -> None:
    store = Store(path, most_bytes=1000)
    assert store.add(new(answer="a" * 2000)) is None
    assert store.stats().entries == 0
    store.close()


def test_the_same_question_replaces_its_answer_under_a_new_id(path: Path) -> None:
    store = Store(path)
    first, second = store.add(new(answer="Old.")), store.add(new(answer="New."))

    found = store.exact(key("What is osmosis?"))
    assert found
    assert found.answer == "New."
    assert first != second
    assert store.stats().entries == 1
    store.close()


def test_an_id_never_comes_to_name_another_answer(path: Path) -> None:
    store = Store(path)
    first = store.add(new())
    assert first is not None
    store.forget(first)

    assert store.add(new("Another?")) != first
    store.close()


def test_reject_removes_and_counts_against_the_rules_that_served(path: Path) -> None:
    store = Store(path)
    store.add(new())
    entry = store.exact(key("What is osmosis?"))
    assert entry
    store.used(entry, 0.95, 0.9, "rules")

    assert store.reject(entry.id)
    assert not store.reject(entry.id)
    assert store.exact(key("What is osmosis?")) is None
    assert store.verdicts("rules") == [Sample(0.95, False)]
    assert store.verdicts("other rules") == []
    store.close()


def test_what_is_forgotten_is_overwritten(path: Path) -> None:
    store = Store(path)
    entry = store.add(new(answer="a secret recipe"))
    assert entry
    store.forget(entry)
    store.purge()
    store.close()

    assert b"secret recipe" not in b"".join(each.read_bytes() for each in path.parent.iterdir())


def test_two_programs_share_one_cache(path: Path) -> None:
    one, other = Store(path), Store(path)
    before = other.changes_of_others()
    one.add(new())

    assert other.exact(key("What is osmosis?"))
    assert other.changes_of_others() != before
    other.add(new("Another?"))
    assert one.count(b"p" * 32) == 2
    one.close()
    other.close()


def test_vectors_of_another_embedder_are_never_mixed_in(path: Path) -> None:
    store = Store(path)
    store.add(new())

    assert store.vectors(b"p" * 32, "fake:2") == ([], [])
    assert len(store.vectors(b"p" * 32, "fake:1")[0]) == 1
    assert store.vectors(b"q" * 32, "fake:1") == ([], [])
    store.close()


@pytest.mark.parametrize("content", [b"not a database at all" * 100, b"SQLite format 3\x00" + b"\xff" * 5000])
def test_a_corrupt_file_is_reported_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)

    with pytest.raises(CacheUnavailable, match="purge"):
        Store(path)
    assert path.read_bytes() == content
    remove_files(path)
    Store(path).close()


def test_a_file_of_another_program_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with sqlite3.connect(path) as foreign:
        foreign.execute("CREATE TABLE theirs(x)")
    foreign.close()
    content = path.read_bytes()

    with pytest.raises(CacheUnavailable, match="another program"):
        Store(path)
    assert path.read_bytes() == content


def test_a_locked_file_is_waited_for_and_then_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.cache.schema.BUSY_TIMEOUT_S", 0.05)
    assert BUSY_TIMEOUT_S > 0.05
    store = Store(path)
    store.add(new())
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    assert store.exact(key("What is osmosis?"))  # readers go on
    with pytest.raises(CacheUnavailable, match="locked"):
        store.add(new("Another?"))
    other.execute("ROLLBACK")
    assert store.add(new("Another?"))
    other.close()
    store.close()


def test_a_full_disk_loses_the_new_answer_and_nothing_else(path: Path) -> None:
    store = Store(path)
    store.add(new())
    store._db.execute("PRAGMA max_page_count = 30")

    with pytest.raises(CacheUnavailable, match="disk space"):
        store.add(new("Another?", answer="long " * 100_000))
    assert store.exact(key("What is osmosis?"))
    store.close()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheUnavailable, match="cannot be opened"):
        Store(tmp_path / "file" / "answers.db")


def test_a_file_that_cannot_be_written_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store(path).close()
    store = Store(path)
    store.add(new())
    monkeypatch.setattr("router.cache.schema.os.access", lambda *_: False)
    reader = Store(path)

    assert reader.exact(key("What is osmosis?"))
    with pytest.raises(CacheUnavailable, match="writable"):
        reader.add(new("Another?"))
    reader.close()
    store.close()
