"""Where an answer came from, on one page; and what would leave the machine, before it does.

Owns the layout; the words are those of :mod:`localchat.card_text`.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localchat.card import Card
from localchat.card_text import simulated_text, story
from localchat.tui.panel import Panel
from localchat.tui.safe_text import displayable


class StoryPanel(Panel[None]):
    heading = "Where this answer came from"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("w", "close", "Close", show=False)]

    def __init__(self, card: Card) -> None:
        super().__init__()
        self._card = card

    def body(self) -> ComposeResult:
        with VerticalScroll(id="story"):
            yield Static(self._page(), markup=False)

    def _page(self) -> Content:
        card, lines = self._card, [Content(displayable(line)) for line in story(self._card)]
        if card.simulated:
            lines.append(Content(displayable(simulated_text(card.simulated))))
        if card.entry is not None:
            command = f"localchat explain {card.entry}"
            lines.append(Content.styled(f"The whole record: {command}", "$foreground 60%"))
        return Content("\n\n").join(lines)
