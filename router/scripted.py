"""A backend that says what it is told: for tests, demonstrations and load.

It is a fake and says so in its name; nothing falls back to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field

from router.backend import ModelInfo
from router.errors import RouterError
from router.request import ChatRequest, Delta, Event, Failed, Finished, Message, Progress, Timings, Usage


@dataclass(slots=True)
class ScriptedBackend:
    """Plays ``script`` for every request, ``tokens_per_s`` Deltas a second.

    A str in the script is one Delta, an event is sent as it is, an error is
    raised. Where no end (Finished or Failed) is scripted, a Finished is added. ``requests`` keeps what was
    asked; ``closed`` counts streams that were closed before their end.
    """

    script: Sequence[str | Event | RouterError] = ("Hello", " there", ".")
    tokens_per_s: float | None = None
    model: str = "scripted"
    requests: list[ChatRequest] = field(default_factory=list)
    closed: int = 0
    window_tokens: int = 8192
    loaded: bool = False

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        started = asyncio.get_running_loop().time()
        sent = 0
        ended = False
        try:
            for step in self.script:
                if isinstance(step, RouterError):
                    ended = True
                    raise step
                if isinstance(step, str):
                    sent += 1
                    await self._pace(started, sent)
                    yield Delta(step)
                else:
                    ended = isinstance(step, Finished | Failed)
                    yield step
            if not ended:
                ended = True
                seconds = asyncio.get_running_loop().time() - started
                yield Finished(
                    "stop",
                    Usage(prompt_tokens=await self.count_tokens(request.messages), completion_tokens=sent),
                    Timings(decode_tokens_per_s=sent / seconds if seconds > 0 else 0.0),
                    self.model,
                )
        finally:
            self.closed += not ended

    # -- as a LocalModel

    @property
    def info(self) -> ModelInfo | None:
        if not self.loaded:
            return None
        return ModelInfo(self.model, "none", 0, 0, self.window_tokens, self.window_tokens, 1, 1, "scripted")

    async def load(self) -> AsyncGenerator[Event, None]:
        if not self.loaded:
            yield Progress("load", 0.5, 1.0, "fraction")
            self.loaded = True
            yield Progress("load", 1.0, 1.0, "fraction")

    async def count_tokens(self, messages: Sequence[Message]) -> int:
        return sum(len(message.content.split()) for message in messages)

    async def close(self) -> None:
        self.loaded = False

    async def _pace(self, started: float, sent: int) -> None:
        # Even without a pace the reader gets its turn, as with a real backend.
        due = started + sent / self.tokens_per_s if self.tokens_per_s else 0.0
        await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
