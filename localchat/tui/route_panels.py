"""Where an answer came from, on one page; and what would leave the machine, before it does.

Owns the layout; the words come from :mod:`localchat.story` and the router.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localchat.tui.panel import Panel
from localchat.tui.safe_text import displayable, one_line
from router.consent import Consent, Departure


class StoryPanel(Panel[None]):
    heading = "Where this answer came from"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("w", "close", "Close", show=False)]

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__()
        self._lines = lines

    def body(self) -> ComposeResult:
        with VerticalScroll(id="story"):
            yield Static(Content("\n".join(map(displayable, self._lines))), markup=False)


class ConsentPanel(Panel[Consent]):
    """Asks before identifiers or secrets leave; closing it keeps them here."""

    heading = "Before this leaves your machine"
    hints = "r placeholders  s send  k or esc keep here  tab compare"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "answer('redact')", "Replace by placeholders"),
        Binding("s", "answer('send')", "Send as it is"),
        Binding("k", "answer('keep')", "Keep here"),
        Binding("tab", "compare", "With or without placeholders", priority=True),
    ]

    def __init__(self, departure: Departure) -> None:
        super().__init__()
        self._departure = departure
        self._redacted = True
        self._title = Static(classes="panel--label", markup=False)
        self._body = Static(markup=False)

    def body(self) -> ComposeResult:
        departure = self._departure
        words = f"It is meant for {one_line(departure.cloud, 60)} and holds {one_line(departure.found)}."
        yield Static(Content(words), classes="panel--question")
        yield self._title
        with VerticalScroll(id="departure"):
            yield self._body

    def on_mount(self) -> None:
        self._show()

    def action_compare(self) -> None:
        self._redacted = not self._redacted
        self._show()

    def action_answer(self, consent: Consent) -> None:
        self.dismiss(consent)

    def _show(self) -> None:
        departure = self._departure
        which = "with placeholders" if self._redacted else "as it is"
        self._title.update(Content(f"Exactly what would leave, {which}:"))
        self._body.update(Content(displayable(departure.redacted if self._redacted else departure.body)))


class PreviewPanel(Panel[None]):
    """Exactly what would leave, without sending it."""

    heading = "What would leave"

    def __init__(self, departure: Departure) -> None:
        super().__init__()
        self._departure = departure

    def body(self) -> ComposeResult:
        departure = self._departure
        found = departure.found or "no identifiers or secrets of the kinds that are looked for"
        words = f"For {one_line(departure.cloud, 60)}; it holds {one_line(found)}."
        yield Static(Content(words), classes="panel--question")
        with VerticalScroll(id="departure"):
            yield Static(Content(displayable(departure.body)), markup=False)
