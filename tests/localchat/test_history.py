"""What a conversation keeps: its text, title, place in the list, drafts, and the state of a stream."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localchat.errors import HistoryError
from localchat.history import History
from router.request import Timings, Usage

ANY_TEXT = st.text(st.characters(exclude_categories=()))  # NUL, lone surrogates, every script
UNUSUAL = "a\0b\r\n\u202eשלום\u202c 👩‍👩‍👧 e\u0301 你好\x1b[31m"


@pytest.fixture
def history() -> Iterator[History]:
    with History(None) as opened:
        yield opened


@settings(max_examples=50, deadline=None)
@given(content=ANY_TEXT, reasoning=ANY_TEXT)
def test_text_comes_back_as_it_was_but_for_lone_surrogates(content: str, reasoning: str) -> None:
    with History(None) as history:
        conversation = history.new_conversation(system=content)
        message = history.add(conversation.id, None, "user", content)
        history.update(message.id, content=content, reasoning=reasoning, state="done")
        kept = history.message(message.id)
        assert kept.content == _without_surrogates(content) == conversation.system
        assert kept.reasoning == _without_surrogates(reasoning)


def _without_surrogates(text: str) -> str:
    return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)


def test_a_saved_conversation_is_never_blank_after_reopening(tmp_path: Path) -> None:
    long = UNUSUAL * 200_000
    with History(tmp_path / "h.db") as history:
        conversation = history.new_conversation()
        question = history.add(conversation.id, None, "user", UNUSUAL)
        history.add(conversation.id, question.id, "assistant", long, model="m")
    with History(tmp_path / "h.db") as history:
        latest = history.latest()
        assert latest is not None
        assert latest.leaf_id is not None
        assert [message.content for message in history.path(latest.leaf_id)] == [UNUSUAL, long]


def test_a_conversation_without_messages_is_not_listed(history: History) -> None:
    empty = history.new_conversation("planned")
    assert history.conversations() == []
    assert history.latest() is None
    assert history.conversation(empty.id).title == "planned"


@given(content=ANY_TEXT)
@settings(max_examples=50, deadline=None)
def test_a_title_is_one_short_line(content: str) -> None:
    with History(None) as history:
        conversation = history.new_conversation()
        history.add(conversation.id, None, "user", content * 20)
        title = history.conversation(conversation.id).title
        assert len(title) <= 60
        assert not any(char < " " or "\x7f" <= char <= "\x9f" or char in "\u202e\u2028" for char in title)


def test_the_first_line_of_the_first_question_is_the_title(history: History) -> None:
    conversation = history.new_conversation()
    question = history.add(conversation.id, None, "user", "\n\x1b\n  How do\tI \x1bfly?\nAnd land?")
    history.add(conversation.id, question.id, "user", "Anything else?")
    assert history.conversation(conversation.id).title == "How do I fly?"
    history.rename(conversation.id, "Flying\nlessons")
    assert history.conversation(conversation.id).title == "Flying lessons"


def test_pages_follow_each_other_without_gap_or_repetition() -> None:
    with History(None, now=lambda: 7.0) as history:  # all at the same time: the id decides
        for _ in range(7):
            history.add(history.new_conversation().id, None, "user", "hello")
        pages, before = [], None
        while page := history.conversations(limit=3, before=before):
            pages.append([info.id for info in page])
            before = (page[-1].updated_at, page[-1].id)
        assert pages == [[7, 6, 5], [4, 3, 2], [1]]


def test_model_and_figures_once_stored_outlive_updates_without_any(history: History) -> None:
    answer = history.add(history.new_conversation().id, None, "assistant", "", state="streaming")
    usage, timings = Usage(10, 4, 3), Timings(0.5, 1.25, 90.0, 12.5)
    history.update(answer.id, content="a", state="done", model="m", usage=usage, timings=timings)
    history.update(answer.id, content="b", state="done")
    kept = history.message(answer.id)
    assert (kept.content, kept.model, kept.usage, kept.timings) == ("b", "m", usage, timings)


def test_a_stream_nobody_writes_to_is_shown_as_interrupted() -> None:
    clock = [100.0]
    with History(None, now=lambda: clock[0]) as history:
        answer = history.add(history.new_conversation().id, None, "assistant", "", state="streaming")
        history.update(answer.id, content="half", state="streaming")
        seen = []
        for clock[0] in (104.0, 106.0, 50.0):  # alive, silent, and after the clock was set back
            seen.append(history.message(answer.id).state)
        assert seen == ["streaming", "interrupted", "interrupted"]
        history.update(answer.id, content="half and more", state="streaming")
        assert history.message(answer.id).state == "streaming"


def test_excluding_is_all_or_nothing(history: History) -> None:
    message = history.add(history.new_conversation().id, None, "user", "hello")
    with pytest.raises(HistoryError):
        history.set_excluded([message.id, 999], True)
    assert not history.message(message.id).excluded


def test_drafts_survive_also_before_there_is_a_conversation(tmp_path: Path) -> None:
    with History(tmp_path / "h.db") as history:
        conversation = history.new_conversation()
        history.save_draft(None, "first")
        history.save_draft(None, "to nobody yet")
        history.save_draft(conversation.id, "half a quest")
    with History(tmp_path / "h.db") as history:
        assert history.draft(None) == "to nobody yet"
        assert history.draft(conversation.id) == "half a quest"
        history.delete(conversation.id)
        history.save_draft(None, "")
        assert history.draft(None) == history.draft(conversation.id) == ""


ASK_FOR_WHAT_IS_GONE: list[Callable[[History, int], Any]] = [
    lambda history, mine: history.conversation(9),
    lambda history, mine: history.rename(9, "x"),
    lambda history, mine: history.set_system(9, "x"),
    lambda history, mine: history.delete(9),
    lambda history, mine: history.save_draft(9, "x"),
    lambda history, mine: history.add(9, None, "user", "x"),
    lambda history, mine: history.add(mine, 9, "user", "x"),
    lambda history, mine: history.set_leaf(mine, 9),
    lambda history, mine: history.update(9, content="x", state="done"),
    lambda history, mine: history.message(9),
    lambda history, mine: history.path(9),
    lambda history, mine: history.siblings(9),
    lambda history, mine: history.leaf_below(9),
]


@pytest.mark.parametrize("ask", ASK_FOR_WHAT_IS_GONE)
def test_what_is_gone_is_an_error_that_changes_nothing(
    history: History, ask: Callable[[History, int], Any]
) -> None:
    mine = history.new_conversation().id
    kept = history.add(mine, None, "user", "kept")
    before = (history.conversation(mine), history.tree(mine))
    with pytest.raises(HistoryError, match=r"There is no .* choose another conversation\."):
        ask(history, mine)
    assert (history.conversation(mine), history.tree(mine)) == before
    assert history.add(mine, kept.id, "assistant", "and on").parent_id == kept.id


def test_a_message_has_no_parent_in_another_conversation(history: History) -> None:
    stranger = history.add(history.new_conversation().id, None, "user", "hello")
    with pytest.raises(HistoryError, match="in conversation"):
        history.add(history.new_conversation().id, stranger.id, "user", "hello")


def test_any_thread_may_write(history: History) -> None:
    conversation = history.new_conversation()

    def write() -> None:
        for _ in range(50):
            history.add(conversation.id, None, "user", "hello")

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert history.conversation(conversation.id).message_count == 200
    assert [root.sibling_index for root in history.children(None, conversation.id)] == list(range(200))
