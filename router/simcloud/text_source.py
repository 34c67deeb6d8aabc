"""Where the words of a simulated cloud come from: the Protocol, and the source that is written down.

Owns pieces of text, one a token, and how tokens are counted. Does not know when they are due.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from router.errors import InvalidRequest
from router.request import ChatRequest, FinishReason, Kind, Message

BYTES_PER_TOKEN = 4  # of English text: https://platform.openai.com/tokenizer
MESSAGE_TOKENS = 4  # that a chat template adds to each message, about


@dataclass(frozen=True, slots=True)
class TextToken:
    """What one token says; "" where it ends within a character."""

    text: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class TextEnd:
    """``partial``: the source did not read the whole prompt."""

    reason: FinishReason
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Count:
    tokens: int
    is_estimate: bool = False


class TextSource(Protocol):
    @property
    def model(self) -> str:
        """Whose words they are."""
        ...

    @property
    def window_tokens(self) -> int | None:
        """Prompt and answer together at most; None: any number, or not known yet."""
        ...

    async def count(self, messages: Sequence[Message]) -> Count:
        """Tokens of a prompt."""
        ...

    def stream(self, request: ChatRequest) -> AsyncGenerator[TextToken | TextEnd, None]:
        """One TextToken for every token as soon as it is there, and one TextEnd.

        Raises a RouterError, for what it cannot do before it yields anything.
        """
        ...

    async def close(self) -> None: ...


def estimated(messages: Sequence[Message]) -> Count:
    size = sum(len(message.content.encode("utf-8", "replace")) for message in messages)
    return Count(max(1, -(-size // BYTES_PER_TOKEN) + MESSAGE_TOKENS * len(messages)), is_estimate=True)


PASSAGE = (
    "This answer is scripted: it was written down before you asked and says the same to everybody."
    " What is simulated is its pace. Each word here stands for one token, and it arrives when a"
    " graphics card that serves you and many others would have computed it: after the queue, after your"
    " prompt, and between the steps of the batch you share. Turn the load up and it comes later and more"
    " slowly; turn it down and it runs. For words that answer you, start the cloud with a text model."
)
_WORD = re.compile(r"\s*\S+\s*$|\s*\S+")


@dataclass(frozen=True, slots=True)
class ScriptedText:
    """Says ``passage`` to everybody, a word a token, ``times`` over. Honours max_tokens and stop."""

    passage: str = PASSAGE
    times: int = 1
    model: str = "scripted text"
    window_tokens: int | None = None

    async def count(self, messages: Sequence[Message]) -> Count:
        return estimated(messages)

    async def stream(self, request: ChatRequest) -> AsyncGenerator[TextToken | TextEnd, None]:
        if request.response_format:
            raise InvalidRequest(
                "Scripted text follows no schema and no grammar.",
                "Start the cloud with --text local, or leave response_format out.",
                param="response_format",
            )
        words = [match[0] for match in _WORD.finditer(self.passage)]
        reason: FinishReason = "stop"
        kept = words * self.times
        kept = list(_until_stop(kept, request.sampling.stop)) if request.sampling.stop else kept
        limit = request.sampling.max_tokens
        if limit is not None and limit < len(kept):
            kept, reason = list(islice(kept, limit)), "length"
        for word in kept:
            yield TextToken(word)
        yield TextEnd(reason)

    async def close(self) -> None:
        """It holds nothing."""


def _until_stop(words: Sequence[str], stops: Sequence[str]) -> Iterator[str]:
    """Words as far as the first stop string, which may begin within one and end within another."""
    whole = "".join(words)
    found = [place for place in map(whole.find, stops) if place >= 0]
    left = min(found, default=len(whole))
    for word in words:
        if left <= 0:
            return
        yield word[:left]
        left -= len(word)
