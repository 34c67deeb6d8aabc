"""What a model thought before it answered: one line, until someone wants to read it.

Owns the folding. Never part of what is copied or exported by default.
"""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from localchat.tui.open_block import OpenBlock


class Reasoning(Widget):
    """Folded text with a heading that counts its words, also while it grows."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._text = ""
        self._heading = Static(classes="reasoning--heading")
        self._body = OpenBlock(classes="reasoning--body")
        self._body.display = False
        self.append(text)

    def compose(self) -> ComposeResult:
        yield self._heading
        yield self._body

    @property
    def text(self) -> str:
        return self._text

    @property
    def expanded(self) -> bool:
        return bool(self._body.display)

    def append(self, text: str) -> None:
        if not text:
            return
        self._text += text
        if self.expanded:
            self._body.append(text)
        self._show_heading()

    def toggle(self) -> None:
        self._body.display = not self._body.display
        if self.expanded:
            self._body.replace(self._text)
        self._show_heading()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.toggle()

    def _show_heading(self) -> None:
        words = len(self._text.split())
        mark = "▾" if self.expanded else "▸"
        self._heading.update(Content(f"{mark} Reasoning ({words:,} word{'s' * (words != 1)})"), layout=False)
