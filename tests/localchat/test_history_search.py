"""Laws of searching: nothing typed is an error, and what is there is found."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localchat.history import History

NASTY = [
    '"',
    '""',
    "*",
    "a*",
    "NEAR(",
    "NEAR(a b, 2)",
    "-a",
    "a AND",
    "OR",
    "NOT",
    "content:a",
    "^a",
    "{",
    "(",
    "\\",
]
NASTY += [
    "%",
    "_",
    "'",
    ";",
    "\0",
    "abc\0",
    "\ud800",
    "abc\udfff",
    "你好",
    "你好世界",
    "א\u202eב",
    "👩‍👩‍👧",
    "\n\t",
]

VISIBLE = st.characters(categories=["L", "N", "P", "S"])


@pytest.fixture
def history() -> Iterator[History]:
    with History(None) as opened:
        yield opened


def said(history: History, *contents: str) -> list[int]:
    conversation = history.new_conversation()
    return [history.add(conversation.id, None, "user", content).id for content in contents]


def found(history: History, text: str) -> list[int]:
    return [hit.message_id for hit in history.search(text)]


@pytest.mark.parametrize(
    "text", [*NASTY, " ".join(NASTY), "a " * 5000, "abc " * 5000, "x" * 100_000, '"' * 999]
)
def test_nothing_typed_is_an_error(history: History, text: str) -> None:
    said(history, "abc a b c 你好世界")
    history.search(text)


@settings(max_examples=50, deadline=None)
@given(text=st.text(st.characters(exclude_categories=()), max_size=60))
def test_no_text_is_an_error(text: str) -> None:
    with History(None) as history:
        said(history, text, "abc")
        history.search(text)


@settings(max_examples=100, deadline=None)
@given(content=st.text(max_size=40), data=st.data())
def test_every_part_of_a_word_is_found(content: str, data: st.DataObject) -> None:
    words = content.replace("\0", " ").split()
    searchable = [word for word in words if word in content.partition("\0")[0]]
    with History(None) as history:
        message, _ = said(history, content, "")
        for word in searchable:
            start = data.draw(st.integers(0, len(word) - 1))
            end = data.draw(st.integers(start + 1, len(word)))
            assert found(history, word[start:end]) == [message]


def test_all_words_must_occur_in_any_order_and_case(history: History) -> None:
    both, _, other = said(history, "Bandwidth bounds speed", "bandwidth", "SPEED is bound by BandWidth")
    assert found(history, "speed BANDWIDTH") == [other, both]
    assert found(history, "is bandwidth") == [other]  # a short word narrows what the index found


@pytest.mark.parametrize("text", ["猫", "本語", "日本語", "日本語の", "日 猫"])
def test_chinese_and_japanese_are_found(history: History, text: str) -> None:
    (message,) = said(history, "日本語の猫")
    assert found(history, text) == [message]


def test_wildcards_of_like_mean_themselves(history: History) -> None:
    _, percent, underscore, backslash = said(history, "plain", "5 % more", "a_b", "c\\d")
    assert (found(history, "%"), found(history, "_"), found(history, "\\")) == (
        [percent],
        [underscore],
        [backslash],
    )


def test_the_index_follows_edits_streams_and_deletion(history: History) -> None:
    (message,) = said(history, "first text")
    history.update(message, content="second text", state="done")
    assert (found(history, "first"), found(history, "second")) == ([], [message])
    history.update(message, content="third text", state="streaming")
    assert (found(history, "second"), found(history, "third")) == ([], [message])
    history.update(message, content="fourth text", state="failed")
    assert (found(history, "third"), found(history, "fourth")) == ([], [message])
    history.delete(history.message(message).conversation_id)
    assert found(history, "text") == []
    with history._db.transaction() as db:
        db.execute("INSERT INTO message_text(message_text, rank) VALUES ('integrity-check', 1)")


def test_streaming_leaves_the_index_alone(history: History) -> None:
    (message,) = said(history, "")
    history.update(message, content="", state="streaming")
    before = _index_bytes(history)
    for length in range(50):
        history.update(message, content="megabytes " * length, state="streaming")
    assert _index_bytes(history) == before
    history.update(message, content="megabytes", state="done")
    assert _index_bytes(history) != before


def _index_bytes(history: History) -> list[bytes]:
    return history._db.select(
        lambda row: bytes(row[0]), "SELECT block FROM message_text_data ORDER BY id", ()
    )


@settings(max_examples=100, deadline=None)
@given(content=st.text(max_size=300), word=st.text(VISIBLE, min_size=1, max_size=5))
@example(content="« " * 100 + "abc »", word="abc")
def test_a_snippet_is_one_plain_line_around_the_marked_match(content: str, word: str) -> None:
    with History(None) as history:
        said(history, content + word + content)
        for hit in history.search(word):
            assert not re.search("[\x00-\x1f\x7f-\x9f]", hit.snippet)
            assert len(hit.snippet) < 1000
            marked = re.findall("«([^«»]*)»", hit.snippet)
            assert hit.snippet.count("«") == hit.snippet.count("»") == len(marked)
            assert all(mark.casefold() in _shown(word).casefold() for mark in marked)


def _shown(word: str) -> str:
    """The text's own guillemets give way to the marks."""
    return word.replace("«", "‹").replace("»", "›")


def test_a_snippet_says_where_it_was_found(history: History) -> None:
    conversation = history.new_conversation("Trips")
    message = history.add(
        conversation.id, None, "user", "x " * 500 + "a Needle\nin\x1b[31m hay " + "y " * 500
    )
    (hit,) = history.search("needle")
    assert (hit.conversation_id, hit.message_id, hit.title) == (conversation.id, message.id, "Trips")
    assert hit.created_at == message.created_at
    assert "a «Needle» in [31m hay y" in hit.snippet
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")


def test_the_newest_come_first_and_no_more_than_asked_for(history: History) -> None:
    messages = said(history, *["common words"] * 5)
    history.update(messages[1], content="common words", state="streaming")
    assert found(history, "common") == messages[::-1]
    assert [hit.message_id for hit in history.search("common", limit=2)] == messages[:2:-1]


def test_searching_by_the_index_reads_only_what_it_shows() -> None:
    def steps(messages: int) -> int:
        with History(None) as history:
            said(history, *["common words"] * messages)
            return counted(history, lambda: history.search("common", limit=5))

    assert steps(400) <= 2 * steps(40)  # the index has layers; a reading of all would be ten times as much


def counted(history: History, act: object) -> int:
    """Steps of SQLite's virtual machine, which unlike seconds are always the same."""
    connection: sqlite3.Connection = history._db._sqlite
    count = [0]

    def step() -> int:
        count[0] += 1
        return 0

    connection.set_progress_handler(step, 1)
    act()  # type: ignore[operator]  # made from words
    connection.set_progress_handler(None, 1)
    return count[0]
