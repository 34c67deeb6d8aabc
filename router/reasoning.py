"""Tells a model's reasoning from its answer while both stream.

Models that think write ``<think>…</think>`` before the answer. Some chat templates
put the opening mark into the prompt, so that only the closing one is ever seen:
then everything before it was reasoning (:class:`~router.request.Reclassified`).
Sans I/O; any cutting of the same text into pieces gives the same result.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Literal

from router.errors import RouterError
from router.request import Delta, Event, Finished, Kind, Reclassified, TokenScore

OPEN, CLOSE = "<think>", "</think>"


class ReasoningSplitter:
    """Feed it text, get (text, kind) pieces and at most one Reclassified.

    An opening mark counts only at the very start; the first closing mark ends
    the reasoning, and all after it is text.
    """

    def __init__(self) -> None:
        self._held = ""  # may be the beginning of a mark
        self._kind: Kind = "text"
        self._phase: Literal["start", "open", "after", "settled"] = "start"

    def feed(self, text: str) -> Iterator[tuple[str, Kind] | Reclassified]:
        self._held += text
        if self._phase == "start":
            visible = self._held.lstrip()
            if len(visible) < len(OPEN) and OPEN.startswith(visible):
                return
            self._phase = "open"
            if visible.startswith(OPEN):
                self._kind, self._held = "reasoning", visible[len(OPEN) :]
        if self._phase == "open":
            before, found, after = self._held.partition(CLOSE)
            yield from self._send(before if found else before[: len(before) - overlap(before, CLOSE)])
            if not found:
                return
            if self._kind == "text":
                yield Reclassified()
            self._kind, self._phase, self._held = "text", "after", after
        if self._phase == "after":
            self._held = self._held.lstrip()
            self._phase = "settled" if self._held else "after"
        yield from self._send(self._held)

    def end(self) -> Iterator[tuple[str, Kind] | Reclassified]:
        """The text held back as the possible beginning of a mark."""
        yield from self._send(self._held)

    def _send(self, text: str) -> Iterator[tuple[str, Kind]]:
        self._held = self._held[len(text) :]
        if text:
            yield text, self._kind


async def separate_reasoning(events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
    """The same events with every Delta's kind told; closing it closes ``events``."""
    splitter = ReasoningSplitter()
    scores: tuple[TokenScore, ...] = ()  # of text still held back

    def told(pieces: Iterator[tuple[str, Kind] | Reclassified]) -> Iterator[Event]:
        nonlocal scores
        for piece in pieces:
            if isinstance(piece, Reclassified):
                yield piece
            else:
                yield Delta(*piece, scores)
                scores = ()

    def held_back() -> Iterator[Event]:
        nonlocal scores
        yield from told(splitter.end())
        if scores:
            yield Delta("", scores=scores)
            scores = ()

    async with aclosing(events):
        try:
            async for event in events:
                if isinstance(event, Delta) and event.kind == "text":
                    scores += event.scores
                    for said in told(splitter.feed(event.text)):
                        yield said
                    continue
                if isinstance(event, Finished):
                    for said in held_back():
                        yield said
                yield event
        except RouterError:  # what was said before it stays valid
            for said in held_back():
                yield said
            raise


def overlap(text: str, mark: str) -> int:
    """How many characters at the end of ``text`` begin ``mark``."""
    for size in range(min(len(text), len(mark) - 1), 0, -1):
        if text.endswith(mark[:size]):
            return size
    return 0
