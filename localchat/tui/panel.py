"""What all panels share: a box over the chat that escape closes.

Owns the frame and the closing; what is inside belongs to each panel.
"""

from __future__ import annotations

from typing import ClassVar, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

Result = TypeVar("Result")


class Panel(ModalScreen[Result | None]):
    """A titled box. Subclasses give ``heading``, ``hints`` and ``body()``; None means closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close")]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (60, "-normal"), (110, "-wide")]  # noqa: RUF012 # as in the parent
    heading: ClassVar[str] = ""
    hints: ClassVar[str] = "esc closes"

    def compose(self) -> ComposeResult:
        with Vertical(classes="panel"):
            yield Static(Content(self.heading), classes="panel--heading")
            yield from self.body()
            yield Static(Content(self.hints), classes="panel--hints")

    def body(self) -> ComposeResult:
        yield from ()

    def action_close(self) -> None:
        self.dismiss(None)


class Confirm(Panel[bool]):
    """Asks before something that cannot be undone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "answer(True)", "Yes"),
        Binding("n", "answer(False)", "No"),
    ]
    hints = "y yes  n no"

    def __init__(self, question: str, detail: str) -> None:
        super().__init__()
        self._question, self._detail = question, detail

    def body(self) -> ComposeResult:
        yield Static(Content(self._question), classes="panel--question")
        yield Static(Content(self._detail), classes="panel--detail")

    def action_answer(self, yes: bool) -> None:
        self.dismiss(yes)
