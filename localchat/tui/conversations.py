"""The conversations of this machine: find, open, rename, delete.

Owns the list and what is typed into it. Reads a page at a time, so it opens as
fast with thousands of conversations as with ten; opening one is the chat's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import date
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from localchat.errors import LocalchatError
from localchat.history import ConversationInfo, History, SearchHit
from localchat.tui.panel import Confirm, Panel
from localchat.tui.safe_text import displayable, one_line

PAGE = 50


@dataclass(frozen=True, slots=True)
class Chosen:
    """What to open; ``message_id`` is the message a search found."""

    conversation_id: int
    message_id: int | None = None


class ConversationsPanel(Panel[Chosen]):
    heading = "Conversations"
    hints = "enter open  ^r rename  ^d delete  esc close"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "step(1)", "Next", priority=True),
        Binding("up", "step(-1)", "Previous", priority=True),
        Binding("pagedown", "step(10)", "Further", priority=True),
        Binding("pageup", "step(-10)", "Back", priority=True),
        Binding("ctrl+r", "rename", "Rename", priority=True),
        Binding("ctrl+d", "delete", "Delete", priority=True),
    ]

    def __init__(self, history: History, search: str = "", current: int | None = None) -> None:
        super().__init__()
        self._history, self._current = history, current
        self._input = Input(search, placeholder="Search", id="search", compact=True)
        self._list = OptionList(id="conversations", compact=True, markup=False)
        self._list.can_focus = False  # the keys stay with what is typed
        self._empty = Static(id="no-conversations", markup=False)
        self._rows: list[ConversationInfo | SearchHit] = []
        self._more = True
        self._renaming: ConversationInfo | None = None

    def body(self) -> ComposeResult:
        yield self._input
        yield self._empty
        yield self._list

    async def on_mount(self) -> None:
        self._input.focus()
        await self._refill()

    # -- the list

    async def _refill(self) -> None:
        text = self._input.value.strip()
        self._rows, self._more = [], not text
        self._list.clear_options()
        if text:
            self._add(await asyncio.to_thread(self._history.search, text))
        else:
            self._next_page()
        self._empty.display = not self._rows
        self._empty.update(Content("Nothing found." if text else "No conversations yet."))
        self._list.highlighted = 0 if self._rows else None

    def _next_page(self) -> None:
        last = self._rows[-1] if self._rows else None
        before = (last.updated_at, last.id) if isinstance(last, ConversationInfo) else None
        page = self._history.conversations(PAGE, before)
        self._more = len(page) == PAGE
        self._add(page)

    def _add(self, rows: list[ConversationInfo] | list[SearchHit]) -> None:
        self._rows.extend(rows)
        self._list.add_options(Option(self._row(row)) for row in rows)

    def _row(self, row: ConversationInfo | SearchHit) -> Content:
        title = one_line(row.title) or "Untitled"
        if isinstance(row, SearchHit):
            return Content.assemble((title, "bold"), "\n  ", _snippet(row.snippet))
        mark = "› " if row.id == self._current else "  "
        return Content.assemble(mark, title, ("  " + day(row.updated_at), "$foreground 60%"))

    def action_step(self, step: int) -> None:
        at = self._list.highlighted
        if at is None:
            return
        if at + step >= len(self._rows) - 1 and self._more:
            self._next_page()
        self._list.highlighted = max(0, min(len(self._rows) - 1, at + step))

    @property
    def _highlighted(self) -> ConversationInfo | SearchHit | None:
        at = self._list.highlighted
        return self._rows[at] if at is not None else None

    # -- keys

    @on(Input.Changed)
    def _search(self) -> None:
        if self._renaming is None:
            self.run_worker(self._refill(), group="search", exclusive=True)

    @on(Input.Submitted)
    async def _enter(self) -> None:
        if self._renaming:
            await self._renamed(self._renaming)
        elif row := self._highlighted:
            self._open(row)

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._open(self._rows[event.option_index])

    def _open(self, row: ConversationInfo | SearchHit) -> None:
        found = row.message_id if isinstance(row, SearchHit) else None
        self.dismiss(Chosen(_id(row), found))

    def action_close(self) -> None:
        if self._renaming:
            self._end_rename()
        else:
            super().action_close()

    # -- renaming and deleting

    def action_rename(self) -> None:
        row = self._highlighted
        if row is None or self._renaming:
            return
        self._renaming = self._history.conversation(_id(row))
        self._input.border_title = "New title"
        self._input.value = self._renaming.title

    async def _renamed(self, info: ConversationInfo) -> None:
        try:
            self._history.rename(info.id, self._input.value)
        except LocalchatError as error:
            self.notify(displayable(str(error)), severity="error", markup=False)
        self._end_rename()

    def _end_rename(self) -> None:
        self._renaming = None
        self._input.border_title = None
        self._input.value = ""
        self.run_worker(self._refill(), group="search", exclusive=True)

    def action_delete(self) -> None:
        row = self._highlighted
        if row is None or self._renaming:
            return
        title = one_line(row.title) or "Untitled"
        question = Confirm("Delete this conversation with all its branches?", title)
        self.app.push_screen(question, lambda yes: self._deleted(_id(row)) if yes else None)

    def _deleted(self, conversation_id: int) -> None:
        try:
            self._history.delete(conversation_id)
        except LocalchatError as error:
            self.notify(displayable(str(error)), severity="error", markup=False)
        self.run_worker(self._refill(), group="search", exclusive=True)


def _id(row: ConversationInfo | SearchHit) -> int:
    return row.conversation_id if isinstance(row, SearchHit) else row.id


def _snippet(text: str) -> Content:
    """«matches» stand out by weight, and keep their marks: colour alone says nothing."""
    parts = displayable(text).replace("»", "«").split("«")
    pieces = [
        (f"«{part}»", "bold") if odd % 2 else (part, "$foreground 60%") for odd, part in enumerate(parts)
    ]
    return Content.assemble(*pieces)


def day(unix_s: float) -> str:
    """``today`` or ``12 Mar 2026``."""
    when = date.fromtimestamp(unix_s)
    return "today" if when == date.today() else f"{when.day} {when:%b %Y}"
