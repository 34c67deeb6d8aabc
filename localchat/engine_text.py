"""A model on this machine as the author of a simulated cloud's words.

Owns one token of text after another, and counting. Does not know when they are due, or HTTP.
Requests wait for each other: there is one engine.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace

from router.backend import LocalModel
from router.request import ChatRequest, Delta, Finished, Message
from router.simcloud.text_source import Count, TextEnd, TextToken, estimated

LEAST_ANSWER_SHARE = 4  # at least a quarter of the window is left to an answer that wants it
READ_OF_LONGER = 2048  # tokens: no part of it makes a good answer, and reading takes this machine time
CUT_MARGIN = 0.9  # what is left may take more tokens for its length than what went
CUTS = 8  # each leaves at most nine tenths: far fewer are needed


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
        """Any number: of a prompt that is too long for the model it reads a part, and says so."""
        return None

    async def count(self, messages: Sequence[Message]) -> Count:
        """By the model's own tokenizer; an estimate while the engine is busy with another answer."""
        if self._answering:
            return estimated(messages)
        return Count(await self._model.count_tokens(messages))

    async def stream(self, request: ChatRequest) -> AsyncGenerator[TextToken | TextEnd, None]:
        self._answering += 1
        try:
            readable = await self._readable(request)
            partial = readable.messages != request.messages
            async with aclosing(self._model.stream(readable)) as events:
                async for event in events:
                    if isinstance(event, Delta):
                        for token in _tokens(event):
                            yield token
                    elif isinstance(event, Finished):
                        yield TextEnd(event.finish_reason, partial)
        finally:
            self._answering -= 1

    async def _readable(self, request: ChatRequest) -> ChatRequest:
        """As much of it as the model's window holds beside an answer. Raises what loading raises."""
        tokens = await self._model.count_tokens(request.messages)
        assert self._model.info
        window = self._model.info.window_tokens
        most = request.sampling.max_tokens or window
        for _ in range(CUTS):
            if tokens + min(most, window // LEAST_ANSWER_SHARE) <= window:
                break
            share = min(window // 2, READ_OF_LONGER) / tokens * CUT_MARGIN
            request = replace(request, messages=_without_middle(request.messages, share))
            tokens = await self._model.count_tokens(request.messages)
        return replace(request, sampling=replace(request.sampling, max_tokens=min(most, window - tokens)))

    async def close(self) -> None:
        await self._model.close()


def _without_middle(messages: Sequence[Message], share: float) -> tuple[Message, ...]:
    """With ``share`` of the longest message: its beginning and its end, where most questions stand."""
    longest = max(range(len(messages)), key=lambda place: len(messages[place].content))
    text = messages[longest].content
    half = int(len(text) * share / 2)
    cut = replace(messages[longest], content=f"{text[:half]}\n…\n{text[len(text) - half :]}")
    return (*messages[:longest], cut, *messages[longest + 1 :])


def _tokens(delta: Delta) -> Iterator[TextToken]:
    """As many as the delta carries; where it joins several, its text is shared out evenly."""
    count = max(1, len(delta.scores))
    size = len(delta.text)
    for place in range(count):
        yield TextToken(delta.text[size * place // count : size * (place + 1) // count], delta.kind)
