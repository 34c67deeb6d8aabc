"""The panel of conversations: list, pages, search, rename, delete."""

from typing import Any

import pytest

from localchat.history import History
from localchat.tui.conversations import PAGE

NOW = 1_700_000_000.0


def store(count: int) -> History:
    ticks = iter(range(10**6))
    history = History(None, now=lambda: NOW + next(ticks))
    for n in range(count):
        info = history.new_conversation()
        history.add(info.id, None, "user", f"Conversation number {n}")
    return history


@pytest.fixture
def panel(chatting: Any, make_program: Any) -> Any:
    return lambda history, **kwargs: chatting(program=make_program(history=history), **kwargs)


def rows(chat: Any) -> list[str]:
    options = chat.app.screen._list.options
    return [option.prompt.plain.strip() for option in options]


async def test_ctrl_o_lists_the_newest_first(panel: Any) -> None:
    async with panel(store(3)) as (chat, pilot):
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert [row.split("  ")[0] for row in rows(chat)] == [f"Conversation number {n}" for n in (2, 1, 0)]
        await pilot.press("escape")
        assert chat.app.screen is chat


async def test_it_reads_one_page_however_many_there_are(panel: Any) -> None:
    async with panel(store(3 * PAGE)) as (chat, pilot):
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert len(rows(chat)) == PAGE
        await pilot.press(*["pagedown"] * 5)
        assert len(rows(chat)) == 2 * PAGE
        await pilot.press(*["pagedown"] * 15)
        assert len(rows(chat)) == 3 * PAGE
        assert len(set(rows(chat))) == 3 * PAGE


async def test_enter_opens(panel: Any) -> None:
    async with panel(store(3)) as (chat, pilot):
        await pilot.press("ctrl+o", "down", "down", "enter")
        await pilot.pause()
        assert chat.session.conversation.title == "Conversation number 0"
        assert [view.stored.content for view in chat.transcript.views] == ["Conversation number 0"]
        assert chat._title.content.plain == "Conversation number 0"


async def test_search_finds_messages_and_opens_at_them(panel: Any, until: Any) -> None:
    history = store(3)
    info = history.new_conversation()
    root = history.add(info.id, None, "user", "A question about zebras")
    history.add(info.id, root.id, "assistant", "Other words")
    async with panel(history) as (chat, pilot):
        await pilot.press("ctrl+o", *"zebra")
        await until(pilot, lambda: len(rows(chat)) == 1)
        assert "«zebra»s" in rows(chat)[0]
        await pilot.press("enter")
        await until(pilot, lambda: chat.transcript.selected)
        assert chat.transcript.selected.stored.id == root.id


async def test_nothing_found_says_so(panel: Any, until: Any) -> None:
    async with panel(store(2)) as (chat, pilot):
        await pilot.press("ctrl+o", *"qqq")
        await until(pilot, lambda: not rows(chat))
        assert chat.app.screen._empty.content.plain == "Nothing found."
        await pilot.press("enter", "down", "ctrl+r", "ctrl+d")


async def test_rename(panel: Any, until: Any) -> None:
    async with panel(store(2)) as (chat, pilot):
        await pilot.press("ctrl+o", "ctrl+r")
        chat.app.screen._input.value = "Better title"
        await pilot.press("enter")
        await until(pilot, lambda: rows(chat)[0].startswith("Better title"))
        assert chat.program.history.conversations(1)[0].title == "Better title"


async def test_delete_asks_first(panel: Any, until: Any) -> None:
    async with panel(store(2)) as (chat, pilot):
        await pilot.press("ctrl+o", "ctrl+d", "n")
        await pilot.pause()
        assert len(rows(chat)) == 2
        await pilot.press("ctrl+d", "y")
        await until(pilot, lambda: len(rows(chat)) == 1)
        assert [c.title for c in chat.program.history.conversations()] == ["Conversation number 0"]


async def test_deleting_the_open_conversation_leaves_a_new_one(panel: Any, until: Any) -> None:
    history = store(1)
    async with panel(history, conversation=history.conversations(1)[0].id) as (chat, pilot):
        await pilot.press("ctrl+o", "ctrl+d", "y")
        await until(pilot, lambda: not rows(chat))
        await pilot.press("escape")
        await until(pilot, lambda: chat.session.conversation is None)
        assert not chat.transcript.views


async def test_titles_are_never_markup(panel: Any) -> None:
    history = History(None)
    info = history.new_conversation("[red]x[/red] [/]")
    history.add(info.id, None, "user", "x")
    async with panel(history) as (chat, pilot):
        await pilot.press("ctrl+o")
        await pilot.pause()
        assert rows(chat)[0].startswith("[red]x[/red] [/]")
