"""What to do when a conversation no longer fits the window.

Owns the choice and says exactly what would be left out, counted by the model's
own tokenizer. Nothing is dropped here: the chat acts on what was chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localchat.history import StoredMessage
from localchat.tui.panel import Panel
from localchat.tui.safe_text import one_line
from router.backend import LocalModel
from router.errors import ContextOverflow
from router.request import Message


@dataclass(frozen=True, slots=True)
class OldTurn:
    """A question with its answers, as it would be left out."""

    message_ids: tuple[int, ...]
    words: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Choice:
    action: Literal["drop", "summarise", "edit"]
    message_ids: tuple[int, ...] = ()


async def old_turns(messages: Sequence[StoredMessage], model: LocalModel) -> list[OldTurn]:
    """The turns before the last question that the model still sees, oldest first."""
    groups: list[list[StoredMessage]] = []
    for message in messages:
        if message.excluded:
            continue
        if message.role == "user" or message.kind == "summary" or not groups:
            groups.append([])
        groups[-1].append(message)
    return [
        OldTurn(
            tuple(m.id for m in group),
            one_line(group[0].content, 60),
            await model.count_tokens([Message(m.role, m.content) for m in group]),
        )
        for group in groups[:-1]
    ]


def turns_to_drop(turns: Sequence[OldTurn], excess_tokens: int) -> int:
    """How many of the oldest must go; all of them may not be enough."""
    freed = 0
    for count, turn in enumerate(turns, 1):
        freed += turn.tokens
        if freed >= excess_tokens:
            return count
    return len(turns)


class OverflowPanel(Panel[Choice]):
    heading = "The conversation is too long for the model"
    hints = "d leave out  s summarise  e edit  ←→ fewer, more  esc later"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d,enter", "choose('drop')", "Leave out"),
        Binding("s", "choose('summarise')", "Summarise"),
        Binding("e", "choose('edit')", "Edit"),
        Binding("left", "step(-1)", "Fewer"),
        Binding("right", "step(1)", "More"),
    ]

    def __init__(self, error: ContextOverflow, turns: Sequence[OldTurn]) -> None:
        super().__init__()
        self._error, self._turns = error, turns
        self._excess = error.prompt_tokens + error.reserved_tokens - error.window_tokens
        self._count = turns_to_drop(turns, self._excess)

    def body(self) -> ComposeResult:
        yield Static(Content(self._error.message), classes="panel--question")
        with VerticalScroll(can_focus=False):
            yield Static(self._listing(), id="old-turns", markup=False)

    def _listing(self) -> Content:
        lines = [self._line(turn, index < self._count) for index, turn in enumerate(self._turns)]
        freed = sum(turn.tokens for turn in self._turns[: self._count])
        enough = freed >= self._excess
        verdict = f"Frees {freed:,} tokens: " + (
            "enough." if enough else "not enough, shorten the message too."
        )
        return Content("\n").join([*lines, Content(), Content(verdict)])

    def _line(self, turn: OldTurn, leaves: bool) -> Content:
        text = f"{'leave out' if leaves else 'keep':<10} {turn.tokens:>7,}  {turn.words}"
        return Content(text) if leaves else Content.styled(text, "$foreground 60%")

    def action_step(self, step: int) -> None:
        self._count = max(0, min(len(self._turns), self._count + step))
        self.query_one("#old-turns", Static).update(self._listing())

    def action_choose(self, action: Literal["drop", "summarise", "edit"]) -> None:
        ids = tuple(i for turn in self._turns[: self._count] for i in turn.message_ids)
        if action == "edit" or ids:
            self.dismiss(Choice(action, ids))
