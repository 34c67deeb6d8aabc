"""Wraps growing text, laying out again only what the new text can change.

Owns rows of at most ``width`` cells; knows no widgets. Greedy wrapping never
changes a row before the last, so appending costs what is appended, however
long the text has become. Appending in pieces gives the rows of the whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import get_character_cell_size


class WrappedText:
    """Text in rows. ``append`` says from which row on the rows have changed."""

    def __init__(self, width: int) -> None:
        self.width = max(2, width)  # a wide character needs two cells
        self.rows: list[str] = [""]
        self._last = ""  # the last row with its trailing spaces: it may still be wrapped differently

    def append(self, text: str) -> int:
        first = len(self.rows) - 1
        rows = list(wrap(self._last + text.replace("\t", "    "), self.width))
        self._last = rows[-1]
        self.rows[first:] = [row.rstrip(" ") for row in rows]
        return first


def wrap(text: str, width: int) -> Iterator[str]:
    """``text`` in rows of at most ``width`` cells; spaces may hang over at a row's end."""
    for line in text.split("\n"):
        start = 0
        while (end := _row_end(line, start, width)) < len(line):
            yield line[start:end]
            start = end
        yield line[start:]


def _row_end(line: str, start: int, width: int) -> int:
    """Where the row that begins at ``start`` ends: behind the last space that fits, or in a word."""
    cells, behind_space = 0, 0
    for index in range(start, len(line)):
        character = line[index]
        cells += get_character_cell_size(character)
        if character == " ":
            behind_space = index + 1
        elif cells > width:
            return behind_space or max(start + 1, index)
    return len(line)
