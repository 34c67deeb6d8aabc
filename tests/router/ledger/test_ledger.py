"""What is recorded can be read again, summed up and labelled."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import LedgerError
from router.ledger import Entry, Ledger, Totals, new_id, payload_bytes, prompt_sha256
from router.ledger.entry import entry_from_json, entry_to_json
from router.request import ChatRequest, HandedOff, Message, Sampling, Simulated, Usage
from tests.router.ledger.entries import FULL, plain


def test_an_entry_is_read_as_it_was_recorded(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.record(FULL) == FULL.id
        assert ledger.entry("full") == FULL
        assert ledger.entries() == [replace(FULL, prompt="", answer="")]


def test_texts_are_on_disk_only_when_they_were_given(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.record(plain(1))
    with sqlite3.connect(tmp_path / "ledger.db") as db:
        ((body, prompt, answer),) = db.execute("SELECT body, prompt, answer FROM entry").fetchall()
    db.close()
    assert (prompt, answer) == ("", "")
    assert "prompt" not in json.loads(body)


def test_what_another_version_wrote_is_left_aside() -> None:
    kept = {**json.loads(entry_to_json(FULL)), "of_another_version": {"x": 1}}
    kept["usage"]["of_another_version"] = 1
    assert entry_from_json(json.dumps(kept), "", "", ()) == replace(FULL, prompt="", answer="")
    with pytest.raises(ValueError, match="no entry"):
        entry_from_json('{"id": 1}', "", "", ())


@given(st.text(), st.text(), st.lists(st.text(), max_size=3))
def test_any_text_can_be_recorded(prompt: str, answer: str, reasons: list[str]) -> None:
    entry = replace(FULL, reasons=tuple(reasons))
    assert entry_from_json(entry_to_json(entry), prompt, answer, ()) == replace(
        entry, prompt=prompt, answer=answer
    )


def test_lone_surrogates_cost_only_themselves(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.record(plain(1, prompt="a\ud800b", reasons=("\udfff",)))
        (entry,) = ledger.entries()
        assert (ledger.entry(entry.id).prompt, entry.reasons) == ("a?b", ("?",))


def test_entries_are_listed_newest_first_and_chosen(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        for number in range(6):
            source = ("local", "cloud", "cache")[number % 3]
            ledger.record(plain(number, conversation_id=number % 2, answered_by=source))
        assert [entry.started_at % 10 for entry in ledger.entries(limit=2)] == [5, 4]
        assert [entry.started_at % 10 for entry in ledger.entries(conversation_id=1)] == [5, 3, 1]
        assert [entry.started_at % 10 for entry in ledger.entries(answered_by="cache")] == [5, 2]
        assert len(ledger.entries(since=1_700_000_004)) == 2


def test_an_entry_is_named_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        for name in ("abc1", "abd2"):
            ledger.record(plain(1, id=name))
        assert ledger.entry("ABC").id == "abc1"
        for name, told in (
            ("ab", "Several"),
            ("x", "There is no"),
            ("", "There is no"),
            ("%", "There is no"),
        ):
            with pytest.raises(LedgerError, match=told):
                ledger.entry(name)


def test_labels_are_kept_in_order(tmp_path: Path) -> None:
    times = iter([5.0, 6.0])
    with Ledger(tmp_path / "ledger.db", now=lambda: next(times)) as ledger:
        ledger.record(FULL)
        ledger.feedback(FULL.id, "bad")
        ledger.feedback(FULL.id, "redone in the cloud")
        labels = ledger.entry("full").labels
        assert [(label.name, label.at) for label in labels] == [("bad", 5.0), ("redone in the cloud", 6.0)]


def test_money_is_summed_apart_from_what_is_simulated_or_unknown(tmp_path: Path) -> None:
    sent = {"answered_by": "cloud", "sent": True, "avoided_usd": None}
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert ledger.totals() == Totals()
        ledger.record(plain(1, conversation_id=1))
        ledger.record(plain(2, conversation_id=1, avoided_usd=None))
        ledger.record(plain(3, conversation_id=2, cost_usd=0.5, **sent))
        ledger.record(plain(4, conversation_id=2, cost_usd=None, usage=None, total_s=None, **sent))
        ledger.record(plain(5, conversation_id=2, cost_usd=9.0, simulated=Simulated("a100"), **sent))
        lost = (HandedOff("cloud", "local", "It was lost."),)
        ledger.record(plain(6, hand_offs=lost, payload_bytes=7, sent=True))
        everything = ledger.totals()
        assert (everything.answers, everything.local, everything.cloud, everything.simulated) == (6, 3, 3, 1)
        assert (everything.spent_usd, everything.spent_unknown, everything.simulated_usd) == (0.5, 1, 9.0)
        assert (everything.avoided_usd, everything.avoided_unknown) == (0.002, 1)
        assert (everything.kept_bytes, everything.sent_bytes) == (300, 207)
        assert (everything.prompt_tokens, everything.seconds) == (50, 10.0)
        assert ledger.totals(conversation_id=2).spent_usd == 0.5
        assert ledger.totals(since=1_700_000_004).spent_usd == 0.0


def test_what_is_not_written_yet_counts(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with Ledger(tmp_path / "ledger.db") as ledger:
        for number in range(200):
            ledger.record(plain(number, cost_usd=1.0, answered_by="cloud", sent=True))
            assert ledger.totals().spent_usd == number + 1


def test_the_sums_of_a_day_are_looked_up_not_searched(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.db") as ledger:
        ledger.record(plain(1))
        ledger.flush()
        for sql in ("started_at >= 5", "conversation_id = 1 AND started_at >= 5"):
            (plan,) = ledger._select(f"EXPLAIN QUERY PLAN SELECT sum(cost_usd) FROM entry WHERE {sql}", {})
            assert "USING INDEX entry_by" in plan[-1]


def ask(*contents: str, **changes: object) -> ChatRequest:
    return replace(ChatRequest(tuple(Message("user", each) for each in contents)), **changes)


def test_a_prompt_is_known_by_all_that_is_said_in_it() -> None:
    hashes = [
        prompt_sha256(request)
        for request in (ask("a", "b"), ask("ab"), ask("a b"), ChatRequest((Message("system", "ab"),)))
    ]
    assert len({*hashes}) == 4
    assert prompt_sha256(ask("ab", sampling=Sampling(temperature=0.9))) == hashes[1]
    assert payload_bytes(ask("ä", "b")) == 3


def test_ids_are_short_and_differ() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert {len(each) for each in ids} == {8}


def test_an_entry_shows_no_text_by_accident() -> None:
    assert "What?" not in repr(FULL)
    assert isinstance(FULL, Entry)
    assert FULL.usage == Usage(100, 20, 50)
