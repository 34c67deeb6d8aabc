"""What the words being typed may become: commands and files.

Owns the list above the prompt. What is chosen is put into the text by the prompt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from textual.content import Content
from textual.widgets import Static

from localchat.tui.attachments import mention, path_candidates
from localchat.tui.commands import starting_with
from localchat.tui.safe_text import one_line

SHOWN = 7
_PATH = re.compile(r'(?:^|\s)@"?([^\s"]*)$')


@dataclass(frozen=True, slots=True)
class Candidate:
    """``replaces`` characters before the cursor become ``text``."""

    text: str
    label: str
    detail: str
    replaces: int


def candidates(before_cursor: str, folder: Path) -> list[Candidate]:
    """For the text before the cursor, or none."""
    if before_cursor.startswith("/") and not any(c.isspace() for c in before_cursor):
        typed = before_cursor[1:]
        return [
            Candidate(f"/{c.name}{' ' if c.argument else ''}", c.usage, c.help, len(before_cursor))
            for c in starting_with(typed)
        ]
    if match := _PATH.search(before_cursor):
        typed = match[1]
        replaces = len(match[0].lstrip())
        return [
            Candidate(mention(path) + ("" if path.endswith("/") else " "), path, "", replaces)
            for path in path_candidates(typed, folder)
        ]
    return []


class CompletionList(Static):
    """A few candidates with one marked; hidden while there are none."""

    def __init__(self) -> None:
        super().__init__(id="completions", markup=False)
        self._candidates: list[Candidate] = []
        self._marked = 0
        self.display = False

    @property
    def is_open(self) -> bool:
        return bool(self._candidates)

    @property
    def marked(self) -> Candidate:
        return self._candidates[self._marked]

    def offer(self, candidates: list[Candidate]) -> None:
        if candidates != self._candidates:
            self._candidates, self._marked = candidates, 0
            self._show()

    def step(self, step: int) -> None:
        self._marked = (self._marked + step) % len(self._candidates)
        self._show()

    def _show(self) -> None:
        self.display = self.is_open
        if not self.is_open:
            return
        first = max(0, min(self._marked - SHOWN // 2, len(self._candidates) - SHOWN))
        shown = self._candidates[first : first + SHOWN]
        width = max(len(one_line(c.label, 40)) for c in shown) + 2
        lines = [self._line(c, width, first + n == self._marked) for n, c in enumerate(shown)]
        self.update(Content("\n").join(lines))

    def _line(self, candidate: Candidate, width: int, marked: bool) -> Content:
        label = one_line(candidate.label, 40).ljust(width)
        mark = "› " if marked else "  "
        style = "bold $primary" if marked else "$foreground"
        return Content.assemble((mark + label, style), (candidate.detail, "$foreground 60%"))
