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

from localchat.room import CountTokens, OldTurn
from localchat.session import Session
from localchat.tui.panel import Panel
from localchat.tui.safe_text import one_line
from router.errors import ContextOverflow
from router.request import Message


@dataclass(frozen=True, slots=True)
class SizedTurn:
    """A turn as it would be left out, and the tokens that frees."""

    turn: OldTurn
    tokens: int


@dataclass(frozen=True, slots=True)
class Choice:
    action: Literal["drop", "summarise", "edit"]
    message_ids: tuple[int, ...] = ()


async def sized(session: Session, count: CountTokens) -> list[SizedTurn]:
    """The turns that may be left out, oldest first.

    Each is counted before a question, less the question alone: a template may put
    a system prompt of its own before whatever comes first.
    """
    messages = {m.id: Message(m.role, m.content) for m in session.transcript()}
    question = Message("user", "?")
    alone = await count([question])
    return [
        SizedTurn(turn, await count([*(messages[i] for i in turn.message_ids), question]) - alone)
        for turn in session.room.old_turns()
    ]


def turns_to_drop(turns: Sequence[SizedTurn], excess_tokens: int) -> int:
    """How many of the oldest must go; all of them may not be enough."""
    freed = 0
    for number, turn in enumerate(turns, 1):
        freed += turn.tokens
        if freed >= excess_tokens:
            return number
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

    def __init__(self, error: ContextOverflow, turns: Sequence[SizedTurn]) -> None:
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

    def _line(self, turn: SizedTurn, leaves: bool) -> Content:
        text = f"{'leave out' if leaves else 'keep':<10} {turn.tokens:>7,}  {one_line(turn.turn.words, 60)}"
        return Content(text) if leaves else Content.styled(text, "$foreground 60%")

    def action_step(self, step: int) -> None:
        self._count = max(0, min(len(self._turns), self._count + step))
        self.query_one("#old-turns", Static).update(self._listing())

    def action_choose(self, action: Literal["drop", "summarise", "edit"]) -> None:
        ids = tuple(i for turn in self._turns[: self._count] for i in turn.turn.message_ids)
        if action == "edit" or ids:
            self.dismiss(Choice(action, ids))
