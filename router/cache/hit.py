"""What a look-up gives: an answer from the cache, or the leave to ask and to keep what comes.

Values only; who looks up is :mod:`router.cache.answers`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from router.decision import CacheLabel
from router.request import CacheHit, Delta, Event, Finished

CHUNK_CHARS = 48  # about what a cloud sends at a time; a screen redraws once for each

_WORDS = re.compile(r"\S*\s*")


@dataclass(frozen=True, slots=True)
class Hit:
    """An answer that was given before. ``avoided_usd`` is what it cost then, None: unknown.

    ``passed`` are the guards that compared the two questions; none for an exact repeat.
    """

    label: CacheLabel
    answer: str
    model: str
    avoided_usd: float | None
    passed: tuple[str, ...] = ()

    def events(self) -> Iterator[Event]:
        """The answer as a stream: its label, its text in pieces, its end. It cost nothing."""
        yield CacheHit(self.label)
        for text in chunks(self.answer):
            yield Delta(text)
        yield Finished("stop", model=self.model)


@dataclass(frozen=True, slots=True)
class Nearest:
    """The most similar question that was not served, and what stood against it."""

    entry: int
    similarity: float
    threshold: float
    refused_by: str


class Ticket(Protocol):
    """Must be used up, by either way, whatever becomes of the answer."""

    async def commit(self, answer: str, finished: Finished) -> str:
        """Keep ``answer``, after its last event; why it was not kept, "" where it was. Never raises."""
        ...

    def abandon(self) -> None:
        """There is no answer to keep. Idempotent, and nothing after a commit."""
        ...


@dataclass(frozen=True, slots=True)
class Miss:
    """``reason`` in words; ``nearest`` where a similar question was refused."""

    reason: str
    ticket: Ticket
    nearest: Nearest | None = None


def chunks(text: str, size: int = CHUNK_CHARS) -> Iterator[str]:
    """Pieces of whole words that joined give ``text``."""
    piece = ""
    for word in _WORDS.findall(text):
        if piece and len(piece) + len(word) > size:
            yield piece
            piece = ""
        piece += word
    if piece:
        yield piece
