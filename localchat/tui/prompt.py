"""Where people write.

Owns the keys of writing: sending, new lines, pasting, walking through earlier
prompts, completion. Knows nothing of what becomes of a message. Text in the
widget may hold tokens for large pastes; ``full_text`` is what will be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from textual import events
from textual.message import Message
from textual.widgets import TextArea

from localchat.tui.completion import Candidate, CompletionList, candidates
from localchat.tui.keyboard import NEWLINE_KEYS
from localchat.tui.pastes import Pastes


class Prompt(TextArea):
    """A text area that sends with enter and grows to a third of the screen."""

    class Submitted(Message):
        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    def __init__(
        self, completions: CompletionList, earlier: Callable[[], Sequence[str]], folder: Path
    ) -> None:
        super().__init__(id="prompt", compact=True, highlight_cursor_line=False, placeholder="Message")
        self.cursor_blink = False  # a blinking cursor is a timer that never rests
        self._completions = completions
        self._earlier = earlier
        self.folder = folder
        self._pastes = Pastes()
        self._declined = ""  # the text whose candidates a person did not want
        self._walk: list[str] = []  # earlier prompts, the newest first, once they are walked through
        self._walked = 0  # 0: what is being written
        self._written = ""

    # -- text

    @property
    def full_text(self) -> str:
        return self._pastes.expand(self.text)

    @property
    def draft(self) -> str:
        """The text to keep; :meth:`restore` takes it back."""
        return self._pastes.pack(self.text)

    def restore(self, draft: str) -> None:
        self._pastes = Pastes()
        self._declined = ""  # the text whose candidates a person did not want
        self._put(self._pastes.unpack(draft))
        self._walked = 0

    def put(self, text: str) -> None:
        """Replace the text, cursor at its end; large text becomes a token as if pasted."""
        self._pastes = Pastes()
        self._declined = ""  # the text whose candidates a person did not want
        self._put(text)

    def _put(self, text: str) -> None:
        self.load_text(text)
        self.move_cursor(self.document.end)
        self._completions.offer([])

    # -- keys

    async def _on_key(self, event: events.Key) -> None:
        if event.key == "enter":
            _consume(event)
            self._enter()
        elif event.key in NEWLINE_KEYS:
            _consume(event)
            self._replace_via_keyboard("\n", *self.selection)
        elif event.key in ("tab", "escape") and self._completions.is_open:
            _consume(event)
            if event.key == "escape":
                self._declined = self._before_cursor()
                self._completions.offer([])
            else:
                self._offer()
                if self._completions.is_open:
                    self._accept(self._completions.marked)
        else:
            await super()._on_key(event)

    def _enter(self) -> None:
        self._offer()  # keys may come faster than changes are told: the list may be of an earlier text
        before = self._before_cursor()
        if self._completions.is_open and self._completions.marked.text.strip() != before:
            self._accept(self._completions.marked)
            return
        self._completions.offer([])
        if self.text.strip():
            self.post_message(self.Submitted(self.full_text))

    def path(self, name: str) -> Path:
        """What a person means by a file's name."""
        return self.folder / Path(name).expanduser()

    def clear_sent(self) -> None:
        """What was submitted has been taken."""
        self.restore("")

    async def _on_paste(self, event: events.Paste) -> None:
        _consume(event)
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        self._replace_via_keyboard(self._pastes.collapse(text), *self.selection)

    def action_cursor_page_up(self) -> None:
        self.screen.query_one("#transcript").scroll_page_up(animate=False)

    def action_cursor_page_down(self) -> None:
        self.screen.query_one("#transcript").scroll_page_down(animate=False)

    def action_delete_left(self) -> None:
        token = self._pastes.token_ending(self._before_cursor())
        if token and self.selection.is_empty:
            row, column = self.cursor_location
            self.delete((row, column - len(token)), (row, column))
        else:
            super().action_delete_left()

    # -- completion

    def _before_cursor(self) -> str:
        row, column = self.cursor_location
        return self.get_text_range((0, 0), (row, column)) if row == 0 else self.document[row][:column]

    def on_text_area_changed(self) -> None:
        self._offer()

    def _offer(self) -> None:
        before = self._before_cursor()
        wanted = before != self._declined and self._may_complete(before)
        self._completions.offer(candidates(before, self.folder) if wanted else [])

    def _may_complete(self, before: str) -> bool:
        return self.has_focus and ((before[:1] == "/" and self.cursor_location[0] == 0) or "@" in before)

    def _accept(self, candidate: Candidate) -> None:
        row, column = self.cursor_location
        self.replace(candidate.text, (row, column - candidate.replaces), (row, column))

    # -- earlier prompts

    def action_cursor_up(self, select: bool = False) -> None:
        if self._completions.is_open:
            self._completions.step(-1)
        elif self.cursor_at_first_line and self.navigator.is_first_wrapped_line(self.cursor_location):
            self._walk_by(1)
        else:
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        if self._completions.is_open:
            self._completions.step(1)
        elif self._walked and self.navigator.is_last_wrapped_line(self.cursor_location):
            self._walk_by(-1)
        else:
            super().action_cursor_down(select)

    def _walk_by(self, step: int) -> None:
        if self._walked == 0:
            self._written = self.draft
            self._walk = list(self._earlier())
        if not self._walk:
            return
        self._walked = min(max(0, self._walked + step), len(self._walk))
        at = self._walked
        if at == 0:
            self.restore(self._written)
        else:
            self._put(self._pastes.collapse(self._walk[at - 1]))


def _consume(event: events.Event) -> None:
    event.stop()
    event.prevent_default()
