"""One reply: how it grows, and how the store keeps up with it.

Owns when a partial reply is saved. Knows nothing of conversations, nor of what
becomes of a reply that the store does not take.
"""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass, replace

from localchat.card import Card, with_event
from localchat.errors import HistoryError
from localchat.history import History, State, StoredMessage
from router.request import Delta, Event, Failed, Finished, Reclassified, Timings, Usage

SAVE_EVERY_S = 0.2
"""A kill -9 loses at most this much of an answer, and the time of one write (the promise is 250 ms)."""

SIGN_OF_LIFE_S = 2.0
"""Saved at least this often, new text or not: a stream silent in the store for 5 s reads as interrupted."""


@dataclass(slots=True)
class Reply:
    """The answer so far."""

    content: str = ""
    reasoning: str = ""
    model: str = ""
    usage: Usage | None = None
    timings: Timings | None = None
    card: Card | None = None
    state: State = "streaming"

    def take(self, event: Event) -> None:
        self.card = with_event(self.card, event)
        match event:
            case Delta(text, "text"):
                self.content += text
            case Delta(text, "reasoning"):
                self.reasoning += text
            case Reclassified():
                self.reasoning, self.content = self.reasoning + self.content, ""
            case Finished():
                self.usage, self.timings, self.model = event.usage, event.timings, event.model
                self.state = "done"
            case Failed():
                self.state = "failed"
            case _:
                pass


class Saver:
    """Writes ``reply`` where ``stored`` is; ``error`` is that of the last write, None if it went well.

    Writes happen in threads, since a disk may take its time and nothing must wait
    for it; one at a time, and none after the last.
    """

    def __init__(self, history: History, stored: StoredMessage, reply: Reply) -> None:
        self.error: HistoryError | None = None
        self._history, self._stored, self._reply = history, stored, reply
        self._lock = threading.Lock()
        self._finished = False

    async def run(self) -> None:
        """Save what is new, until cancelled."""
        saved, saved_at = Reply(), time.monotonic()
        while True:
            await asyncio.sleep(SAVE_EVERY_S)
            if self._reply != saved or time.monotonic() - saved_at >= SIGN_OF_LIFE_S:
                saved, saved_at = replace(self._reply), time.monotonic()
                await asyncio.to_thread(self._save_partial, saved)

    def _save_partial(self, reply: Reply) -> None:
        with self._lock:
            if not self._finished and reply.state == "streaming":
                self._write(reply)

    def finish(self) -> None:
        """Write the whole reply with its last state, once, from any thread."""
        with self._lock:
            if not self._finished:
                self._finished = True
                self._write(self._reply)

    def retry(self) -> bool:
        """Write the last state again; whether the store took it."""
        with self._lock:
            self._write(self._reply)
            return self.error is None

    def in_memory(self) -> StoredMessage:
        """The message as it would be stored."""
        r = self._reply
        return replace(
            self._stored,
            content=r.content,
            reasoning=r.reasoning,
            state=r.state,
            model=r.model,
            usage=r.usage,
            timings=r.timings,
            card=r.card,
        )

    def _write(self, reply: Reply) -> None:
        try:
            self._history.update(
                self._stored.id,
                content=reply.content,
                reasoning=reply.reasoning,
                state=reply.state,
                model=reply.model,
                usage=reply.usage,
                timings=reply.timings,
                card=reply.card,
            )
            self.error = None
        except HistoryError as error:
            self.error = error
