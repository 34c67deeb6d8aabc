"""From token bytes to text that may be shown: whole characters, up to a stop string.

Sans I/O; any cutting of the same bytes into pieces gives the same text.
"""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from router.reasoning import overlap


class TextStream:
    """Feed it the bytes of tokens; it gives text that can no longer change.

    Bytes that end within a character are held back, and so is text that may be
    the beginning of a stop string. Invalid bytes become U+FFFD.
    """

    def __init__(self, stop: Sequence[str] = ()) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._stop = tuple(s for s in stop if s)
        self._held = ""
        self.stopped = False

    def feed(self, data: bytes) -> str:
        """Text to show now. After a stop string :attr:`stopped` is set and all else is ignored."""
        if self.stopped:
            return ""
        text = self._decoder.decode(data)
        return self._release(text) if self._stop else text

    def end(self) -> str:
        """The rest, when no more tokens come."""
        if self.stopped:
            return ""
        text = self._decoder.decode(b"", final=True)
        rest = self._release(text) + self._held if self._stop else text
        self._held = ""
        return rest

    def _release(self, text: str) -> str:
        self._held += text
        # The first to be complete, not the first to begin: else the cutting would matter.
        met = [(at + len(s), at) for s in self._stop if (at := self._held.find(s)) >= 0]
        if met:
            self.stopped = True
            shown, self._held = self._held[: min(met)[1]], ""
            return shown
        keep = max(overlap(self._held, stop) for stop in self._stop)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown
