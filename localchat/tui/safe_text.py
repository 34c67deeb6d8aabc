"""Text of models, files and people, made harmless to look at.

Owns which characters a terminal could obey instead of show. Changes only what
is displayed: what is stored, copied, exported and sent stays as it was.
"""

from __future__ import annotations

REPLACEMENT = "�"


def _table() -> dict[int, str]:
    table = {code: chr(0x2400 + code) for code in range(0x20)}  # ESC becomes ␛
    table |= {0x7F: "␡"}
    table |= dict.fromkeys(range(128, 160), REPLACEMENT)  # C1: some terminals obey them
    # Overrides, embeddings and isolates can show a text in another order than it has.
    table |= dict.fromkeys((*range(8234, 8239), *range(8294, 8298)), REPLACEMENT)
    table |= dict.fromkeys(range(55296, 57344), REPLACEMENT)  # cannot be encoded
    table |= {0x2028: "\n", 0x2029: "\n"}
    del table[ord("\n")], table[ord("\t")]
    return table


_TABLE = _table()


def displayable(text: str) -> str:
    """``text`` without characters that move the cursor, ring, recolour or reorder."""
    if text.isascii() and text.isprintable():
        return text
    return text.replace("\r\n", "\n").translate(_TABLE)


def one_line(text: str, width: int = 200) -> str:
    """The beginning of ``text`` as one displayable line of at most ``width`` characters."""
    line = " ".join(displayable(text[: 4 * width]).split())
    return line if len(line) <= width else f"{line[: width - 1]}…"
