"""Large pastes, shown as a token and sent as what they are.

Owns which token stands for which text; knows no widgets. A draft keeps the
pasted text itself, so it survives the program.
"""

from __future__ import annotations

import re
from collections.abc import Callable

LARGE_LINES = 20
LARGE_CHARS = 2_000
_PACKED = re.compile("\x02(\\d+):")


class Pastes:
    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def collapse(self, text: str) -> str:
        """The text itself or, when it is large, a token for it."""
        lines = text.count("\n") + 1
        if lines <= LARGE_LINES and len(text) <= LARGE_CHARS:
            return text
        name = f"pasted {lines:,} line{'s' * (lines != 1)}, {size_text(len(text.encode(errors='replace')))}"
        token, number = f"[{name}]", 1
        while self._texts.get(token, text) != text:
            number += 1
            token = f"[{name}, {number}]"
        self._texts[token] = text
        return token

    def expand(self, text: str) -> str:
        return self._replace(text, lambda pasted: pasted)

    def token_ending(self, text: str) -> str:
        """The token ``text`` ends with, or ``""``: it is deleted as one."""
        return next((token for token in self._texts if text.endswith(token)), "")

    def pack(self, text: str) -> str:
        """``text`` with each token replaced by its paste, marked so that unpack finds it again."""
        return self._replace(text, lambda pasted: f"\x02{len(pasted)}:{pasted}")

    def unpack(self, draft: str) -> str:
        text, at = "", 0
        while mark := _PACKED.search(draft, at):
            end = mark.end() + int(mark[1])
            text += draft[at : mark.start()] + self.collapse(draft[mark.end() : end])
            at = end
        return text + draft[at:]

    def _replace(self, text: str, by: Callable[[str], str]) -> str:
        if not self._texts:
            return text
        tokens = "|".join(map(re.escape, self._texts))
        return re.sub(tokens, lambda found: by(self._texts[found[0]]), text)


def size_text(size_bytes: float) -> str:
    """``4.1 kB``, in decimal units as file managers show them."""
    for unit in ("B", "kB", "MB"):
        if size_bytes < 999.5:
            return f"{size_bytes:.0f} {unit}" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} GB"
