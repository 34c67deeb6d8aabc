"""A model on this machine as the author of a simulated cloud's words.

Owns one token of text after another, and counting. Does not know when they are due, or HTTP.
Requests wait for each other: there is one engine.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

from router.backend import LocalModel
from router.request import ChatRequest, Delta, Finished, Message
from router.simcloud.text_source import Count, TextEnd, TextToken, estimated


class EngineText:
    """A :class:`~router.simcloud.text_source.TextSource` over one engine."""

    def __init__(self, model: LocalModel) -> None:
        self._model = model
        self._answering = 0

    @property
    def model(self) -> str:
        return self._model.model

    @property
    def window_tokens(self) -> int | None:
        return self._model.info.window_tokens if self._model.info else None

    async def count(self, messages: Sequence[Message]) -> Count:
        """By the model's own tokenizer; an estimate while the engine is busy with another answer."""
        if self._answering:
            return estimated(messages)
        return Count(await self._model.count_tokens(messages))

    async def stream(self, request: ChatRequest) -> AsyncGenerator[TextToken | TextEnd, None]:
        self._answering += 1
        try:
            async with aclosing(self._model.stream(request)) as events:
                async for event in events:
                    if isinstance(event, Delta):
                        for token in _tokens(event):
                            yield token
                    elif isinstance(event, Finished):
                        yield TextEnd(event.finish_reason)
        finally:
            self._answering -= 1

    async def close(self) -> None:
        await self._model.close()


def _tokens(delta: Delta) -> Iterator[TextToken]:
    """As many as the delta carries; where it joins several, its text is shared out evenly."""
    count = max(1, len(delta.scores))
    size = len(delta.text)
    for place in range(count):
        yield TextToken(delta.text[size * place // count : size * (place + 1) // count], delta.kind)
