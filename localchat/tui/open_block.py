"""The unfinished block of a reply, shown as it grows.

Owns the rows on the screen, repaints only those that changed, and gives them a
hint of what the block will look like. It exists because rendering a growing
Markdown block again and again costs more with every token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.selection import Selection
from textual.strip import Strip

from localchat.tui.growing import Growing
from localchat.tui.safe_text import displayable
from localchat.tui.wrapping import WrappedText

FENCES = ("```", "~~~")
_BULLET = re.compile(r"^(\s*)[-*+](?=\s)")
_INLINE = re.compile(r"(`[^`]+`|\*\*[^*]+\*\*)")


class OpenBlock(Growing):
    """Text to append to; its height is the number of its rows. Of a fence only the code is shown."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"open-block--inline-code"}

    def __init__(self, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._text = ""
        self._shown = ""
        self._begun = False  # it is known whether the block is a fence
        self._wrapped = WrappedText(80)

    @property
    def text(self) -> str:
        return self._text

    def append(self, text: str) -> None:
        self._text += text
        if self._begun:
            self._show(text)
        elif "\n" in self._text or not _may_begin_fence(self._text):
            self._begin()

    def replace(self, text: str) -> None:
        self._text = self._shown = ""
        self._begun = False
        self._wrapped = WrappedText(self._wrapped.width)
        self.refresh(layout=True)
        self.append(text)

    def _begin(self) -> None:
        self._begun = True
        is_fence = self._text.lstrip().startswith(FENCES)
        self.set_class(is_fence, "-code")
        self._show(self._text.partition("\n")[2] if is_fence else self._text)

    def _show(self, text: str) -> None:
        self._shown += text
        rows_before = len(self._wrapped.rows)
        first = self._wrapped.append(displayable(text))
        rows = len(self._wrapped.rows)
        changed = Region(0, first, self.size.width, rows - first)
        self.refresh(changed, layout=rows != rows_before or self._shown == text)

    # -- for Textual

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return container.width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if max(2, width) != self._wrapped.width:
            self._wrapped = WrappedText(width)
            self._wrapped.append(displayable(self._shown))
        return len(self._wrapped.rows) if self._shown else 0

    def render_line(self, y: int) -> Strip:
        style = self.rich_style
        row = self._wrapped.rows[y] if y < len(self._wrapped.rows) else ""
        plain = self.has_class("-code")
        segments = [Segment(row, style)] if plain else list(self._segments(row, style))
        return Strip(segments).adjust_cell_length(self.content_size.width, style).apply_offsets(0, y)

    def _segments(self, row: str, style: Style) -> Iterator[Segment]:
        """Bullets and weight, without changing any width: the marks stay until the block is finished."""
        for part in _INLINE.split(_BULLET.sub(r"\1•", row)):
            if part.startswith("`") and len(part) > 1:
                yield Segment(part, style + self.get_component_rich_style("open-block--inline-code"))
            elif part.startswith("**") and len(part) > 2:
                yield Segment(part, style + Style(bold=True))
            else:
                yield Segment(part, style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        return selection.extract("\n".join(self._wrapped.rows)), "\n"


def _may_begin_fence(text: str) -> bool:
    beginning = text.lstrip()
    return bool(beginning) and any(
        beginning.startswith(fence) or fence.startswith(beginning) for fence in FENCES
    )
