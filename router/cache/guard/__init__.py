"""Whether two similar questions mean the same: what a similarity cannot tell."""

from __future__ import annotations

from typing import Protocol


class Guard(Protocol):
    """Compares an asked question with a stored one."""

    @property
    def version(self) -> str:
        """Another one makes calibrations and verdicts void."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """What is compared, in words."""
        ...

    def refuses(self, asked: str, stored: str) -> str:
        """Why the stored answer may not be served, in words; "" where it may."""
        ...

    def is_word(self, word: str) -> bool:
        """Whether ``word`` is an English one."""
        ...
