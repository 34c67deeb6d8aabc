"""All keys and commands on one page.

Owns the words of the keys; the commands say theirs themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localchat.tui.commands import COMMANDS
from localchat.tui.panel import Panel

WRITING = (
    ("enter", "send"),
    ("shift/alt+enter, ctrl+j", "new line"),
    ("up, down", "earlier prompts"),
    ("/", "commands"),
    ("@", "attach a text file"),
    ("esc", "stop the reply, close, go back"),
    ("ctrl+c", "copy the selection; twice: quit"),
)
MOVING = (
    ("ctrl+up, ctrl+down", "select a message"),
    ("page up, page down", "scroll"),
    ("ctrl+end", "jump to the end"),
    ("ctrl+t", "show or hide the reasoning"),
    ("ctrl+o", "conversations"),
    ("ctrl+n", "new conversation"),
    ("ctrl+p", "command palette"),
    ("f2", "models"),
    ("f3", "parameters and system prompt"),
    ("f4", "speed: predicted, measured, explained"),
    ("f5", "who answers: local, auto, cloud"),
)
SELECTED = (
    ("c", "copy it"),
    ("b, 1 to 9", "copy its next code block, or that one"),
    ("e", "edit your message, as a new branch"),
    ("r", "answer again, as a new branch"),
    ("o", "ask the other side too: cloud or this machine"),
    ("n", "not this one: drop a stored answer, ask anew"),
    ("w", "where it came from, and why"),
    ("+, -", "a good answer, a bad one: later ones are judged by it"),
    ("[, ]", "other branches"),
    ("x", "leave it out of the context, or take it back in"),
    ("f", "go on from here"),
    ("space", "show or hide what is folded"),
)
VIM = (("j, k", "scroll"), ("g, G", "first and last message shown"))


class HelpPanel(Panel[None]):
    heading = "Keys and commands"

    def __init__(self, vim: bool) -> None:
        super().__init__()
        self._vim = vim

    def body(self) -> ComposeResult:
        with VerticalScroll(id="help"):
            yield Static(self._page(), markup=False)

    def _page(self) -> Content:
        commands = [(command.usage, command.help) for command in COMMANDS]
        sections = [("Writing", WRITING), ("Moving", MOVING), ("With a message selected", SELECTED)]
        sections += [("In the transcript", VIM)] if self._vim else []
        return Content("\n\n").join([*(_section(*s) for s in sections), _section("Commands", commands)])


def _section(title: str, rows: Iterable[tuple[str, str]]) -> Content:
    lines = [Content.styled(title, "bold")]
    lines += [Content.assemble(f"  {key:<25}", (words, "$foreground 70%")) for key, words in rows]
    return Content("\n").join(lines)
