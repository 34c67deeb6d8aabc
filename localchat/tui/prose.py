"""Finished Markdown on the screen.

Owns how Markdown is read (nothing a model writes may vanish or reach out) and
which widgets show it. Knows nothing of messages or of text that still grows.
Importing it loads the Markdown parser: the app does so after its first paint.
"""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from textual.widgets import Markdown
from textual.widgets.markdown import MarkdownFence

from localchat.tui.safe_text import displayable


@cache
def _parser() -> MarkdownIt:
    # Raw HTML would be dropped by the widget and images shown as a pictogram: both stay text.
    # Bare addresses are left to the terminal, which finds them itself; linkify costs 50 ms to import.
    return MarkdownIt("gfm-like", {"html": False, "linkify": False}).disable("image")


class Fence(MarkdownFence):
    """A block of code. Without a language it is plain: guessing costs time and is often wrong."""

    def __init__(self, markdown: Markdown, token: Token, code: str) -> None:
        token.info = (token.info.split() or ["text"])[0]
        super().__init__(markdown, token, code)


class Prose(Markdown):
    """Markdown from a model, made harmless to look at; links open only when they are web pages."""

    BLOCKS = {**Markdown.BLOCKS, "fence": Fence, "code_block": Fence}  # noqa: RUF012 # as in the parent

    def __init__(self, text: str) -> None:
        super().__init__(displayable(text), parser_factory=_parser, open_links=False)

    def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        event.stop()
        if event.href.startswith(("https://", "http://")):
            self.app.open_url(event.href)
        else:
            self.app.notify(event.href, title="Not opened: not a web page", markup=False)
