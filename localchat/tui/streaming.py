"""Cuts Markdown into finished blocks and an open one while it arrives.

Owns only where a block ends; sans I/O, no widgets. A finished block never
changes again, so it can be rendered once; the open one may still turn into
anything. Any cutting of the same text into pieces gives the same blocks, and
the blocks joined are the text. Where a block really ends in Markdown may
depend on text far away (reference links): the final rendering sees to that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})")
_LIST_ITEM = re.compile(r"^\s*([-*+]|\d{1,9}[.)])(\s|$)")
_HEADING = re.compile(r"^ {0,3}#{1,6}(\s|$)")


class BlockSplitter:
    """Feed it text, get the blocks that text finished; ``open`` is the rest."""

    def __init__(self) -> None:
        self._lines: list[str] = []  # complete lines of the open block
        self._partial = ""
        self._fence = ""  # the mark that opened a fence, while it is open
        self._in_list = False
        self._blank = False  # the open block, a list, was followed by a blank line

    @property
    def open(self) -> str:
        return "".join(self._lines) + self._partial

    def feed(self, text: str) -> Iterator[str]:
        *complete, self._partial = (self._partial + text).split("\n")
        for line in complete:
            yield from self._take(f"{line}\n")

    def _take(self, line: str) -> Iterator[str]:
        if self._fence:
            yield from self._inside_fence(line)
        elif not line.strip():
            yield from self._blank_line(line)
        else:
            if self._ends_before(line):
                yield from self._finish()
            yield from self._begin(line)

    def _inside_fence(self, line: str) -> Iterator[str]:
        self._lines.append(line)
        mark = line.strip()
        if mark.startswith(self._fence) and not mark.strip(self._fence[0]):
            self._fence = ""
            if not self._in_list:
                yield from self._finish()

    def _blank_line(self, line: str) -> Iterator[str]:
        self._lines.append(line)
        self._blank = True
        if not self._in_list and any(part.strip() for part in self._lines):
            yield from self._finish()

    def _ends_before(self, line: str) -> bool:
        if not any(part.strip() for part in self._lines):
            return False
        if self._in_list:  # goes on with an item or an indented line
            return not line.startswith((" ", "\t")) and not _LIST_ITEM.match(line) and self._blank
        return bool(_FENCE.match(line) or _HEADING.match(line))

    def _begin(self, line: str) -> Iterator[str]:
        first = not any(part.strip() for part in self._lines)
        self._lines.append(line)
        self._blank = False
        if first:
            self._in_list = bool(_LIST_ITEM.match(line))
        if fence := _FENCE.match(line):
            self._fence = fence[2]
        elif first and _HEADING.match(line):
            yield from self._finish()

    def _finish(self) -> Iterator[str]:
        yield "".join(self._lines)
        self._lines.clear()
        self._in_list = self._blank = False


def code_blocks(markdown: str) -> list[tuple[str, str]]:
    """(language, code) of every fenced block, in order; an unclosed one counts too."""
    found: list[tuple[str, str]] = []
    lines = iter(markdown.split("\n"))
    for line in lines:
        if not (fence := _FENCE.match(line)):
            continue
        indent, mark = fence[1], fence[2]
        code: list[str] = []
        for inner in lines:
            closing = inner.strip()
            if closing.startswith(mark) and not closing.strip(mark[0]):
                break
            code.append(inner.removeprefix(indent))
        found.append((line.strip()[len(mark) :].strip(), "\n".join(code)))
    return found
