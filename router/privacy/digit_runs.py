"""Groups of digits that stand together, as in 4111 1111 1111 1111 or +46 (0)8 928 571 38.

Owns what may stand between groups and where a number begins. Works on folded text, in one pass.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_GROUP = re.compile("[0-9]+")
_GAPS = frozenset((" ", "  ", "-", ".", " - ", "/", ")", ") ", ")-", "(", " (", "-("))


@dataclass(frozen=True, slots=True)
class Run:
    """``groups`` are (start, end) in ``text``; between them stands one of the gaps above."""

    text: str
    groups: tuple[tuple[int, int], ...]
    lengths: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", tuple([end - start for start, end in self.groups]))

    @property
    def start(self) -> int:
        return self.groups[0][0]

    @property
    def end(self) -> int:
        return self.groups[-1][1]

    @property
    def digits(self) -> str:
        return "".join(self.text[start:end] for start, end in self.groups)

    @property
    def gaps(self) -> tuple[str, ...]:
        inner = zip(self.groups, self.groups[1:], strict=False)
        return tuple(self.text[end:start] for (_, end), (start, _) in inner)

    @property
    def before(self) -> str:
        """The character before it, "" at the beginning."""
        return self.text[self.start - 1 : self.start]

    @property
    def stands_alone(self) -> bool:
        """It is not a part of a word, and not what follows a decimal point."""
        decimal = self.before == "." and self.text[self.start - 2 : self.start - 1].isdecimal()
        after = self.text[self.end : self.end + 1]
        return not (decimal or self.before.isalnum() or after.isalnum())

    def part(self, first: int, last: int) -> Run:
        """The groups from ``first`` up to, not including, ``last``."""
        return Run(self.text, self.groups[first:last])


def digit_runs(text: str) -> Iterator[Run]:
    """All of ``text``, in order; none shares a group with another."""
    groups: list[tuple[int, int]] = []
    for match in _GROUP.finditer(text):
        if groups and text[groups[-1][1] : match.start()] not in _GAPS:
            yield Run(text, tuple(groups))
            groups = []
        groups.append(match.span())
    if groups:
        yield Run(text, tuple(groups))
