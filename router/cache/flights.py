"""One call for identical questions that are asked at the same time, within this process.

Owns who leads and who waits. Knows nothing of answers: a follower looks again once its
leader has ended, and leads itself where there was nothing to find.
"""

from __future__ import annotations

import asyncio

PATIENCE_S = 60.0  # a leader that takes longer is not waited for: two calls are better than none


class Flights:
    """For one event loop."""

    def __init__(self) -> None:
        self._open: dict[bytes, asyncio.Event] = {}

    async def lead(self, key: bytes, patience_s: float = PATIENCE_S) -> bool:
        """True once nobody else leads; False after ``patience_s``. A leader must ``end``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience_s
        while (flight := self._open.get(key)) is not None:
            try:
                async with asyncio.timeout_at(deadline):
                    await flight.wait()
            except TimeoutError:
                return False
        self._open[key] = asyncio.Event()
        return True

    def end(self, key: bytes) -> None:
        """Lets those who wait look for what the leader left. Idempotent."""
        flight = self._open.pop(key, None)
        if flight:
            flight.set()
