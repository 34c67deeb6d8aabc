"""An answer as it arrives: bytes in, events out, and at the end what was used and what it cost.

Sans I/O; the time is an argument. Owns when an answer has begun and when it is complete, what
is believed of the server's counts, and the limit on its size. Does not know connections.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from router.cloud.sse import Decoder, OversizedEvent, ServerSentEvent
from router.cloud.wire import (
    Chunk,
    NotAsAgreed,
    chunk_from_json,
    completion_from_json,
    error_from_json,
    loads,
    stream_status,
)
from router.errors import CloudCutOff, CloudMalformed
from router.prices import Price
from router.request import Delta, Event, Finished, FinishReason, Notice, Simulated, Timings, ToolCall, Usage

PIECES_BEYOND = 64  # of the limit on tokens: a server may send pieces of tokens
MAX_ANSWER_CHARS = 4 << 20  # beyond any model's longest answer (a million tokens of four characters)
CHARS_PER_TOKEN = 4  # of English text: https://platform.openai.com/tokenizer
LONGEST_TOKEN_CHARS = 128  # runs of blanks, in the vocabularies of GPT and Llama 3
TEMPLATE_TOKENS = 4096  # that a server may add to a prompt before its count looks wrong


@dataclass(frozen=True, slots=True)
class Sent:
    """What was asked, as far as counts are judged by it. A prompt has fewer tokens than bytes."""

    started_s: float
    model: str = ""
    prompt_bytes: int = 0
    max_tokens: int | None = None
    price: Price | None = None


@dataclass(slots=True)
class Receiver:
    """One answer. ``begun``: something of it was passed on, so it cannot be asked for again."""

    sent: Sent
    begun: bool = False
    done: bool = False
    _decoder: Decoder = field(default_factory=Decoder)
    _finish_reason: FinishReason | None = None
    _usage: Usage | None = None
    _simulated: Simulated | None = None
    _model: str = ""
    _hidden_tokens: int = 0
    _shows_reasoning: bool = False
    _pieces: int = 0
    _chars: int = 0
    _first_s: float = 0.0
    _last_s: float = 0.0

    @property
    def complete(self) -> bool:
        """The model ended; only counts may still follow."""
        return self.done or self._finish_reason is not None

    def feed(self, data: bytes, now_s: float) -> Iterator[Event]:
        """Events of a stream, as far as ``data`` completes them.

        Raises a RouterError; what was yielded before stays valid.
        """
        try:
            for event in self._decoder.feed(data):
                yield from self._take(event, now_s)
        except OversizedEvent as error:
            raise _malformed(f"it sent {error}") from None

    def end_of_stream(self, now_s: float) -> Iterator[Event]:
        """Nothing more comes. Raises CloudCutOff where the answer is not complete."""
        for event in self._decoder.end():
            yield from self._take(event, now_s)
        if not self.complete:
            raise CloudCutOff(
                "The cloud ended the connection in the middle of the answer."
                if self.begun
                else "The cloud ended the connection without an answer.",
                "What came is kept; ask again." if self.begun else "Ask again.",
            )

    def whole(self, body: bytes, now_s: float) -> Iterator[Event]:
        """An answer that came as one JSON object, from a server that does not stream."""
        try:
            answer = loads(body)
            if answer.get("error"):
                raise error_from_json(stream_status(answer), answer)
            yield from self._add(completion_from_json(answer), now_s)
        except NotAsAgreed as error:
            raise _malformed(f"its answer is damaged: {error}") from None
        self.done = True

    def finished(self) -> Iterator[Event]:
        """The end: Finished, after a notice where the server's counts cannot be right."""
        usage = self._usage or self._estimated()
        if doubt := self._doubt(usage):
            yield Notice(doubt)
        yield Finished(
            self._finish_reason or "unknown",
            usage,
            self._timings(usage),
            self._model or self.sent.model,
            self.sent.price.cost_usd(usage) if self.sent.price else None,
            self._usage is None or (self._simulated is not None and self._simulated.estimated),
            self._simulated,
        )

    def _take(self, event: ServerSentEvent, now_s: float) -> Iterator[Event]:
        if self.done:
            return
        if event.is_done:
            self.done = True
            return
        if not event.data.strip():
            return
        try:
            body = loads(event.data)
            if body.get("error") or event.event == "error":
                raise error_from_json(stream_status(body), body)
            yield from self._add(chunk_from_json(body), now_s)
        except NotAsAgreed as error:
            raise _malformed(f"a piece of its answer is damaged: {error}") from None

    def _add(self, chunk: Chunk, now_s: float) -> Iterator[Event]:
        self._finish_reason = chunk.finish_reason or self._finish_reason
        self._usage = chunk.usage or self._usage
        self._simulated = chunk.simulated or self._simulated
        self._model = chunk.model or self._model
        self._hidden_tokens = chunk.reasoning_tokens or self._hidden_tokens
        for piece in chunk.pieces:
            if self._is_past_the_limit():
                self._finish_reason, self.done = "length", True
                return
            self._count(piece, now_s)
            yield piece

    def _is_past_the_limit(self) -> bool:
        """It was told how long an answer may be and goes on; servers may count a little differently."""
        limit = self.sent.max_tokens
        return limit is not None and self._pieces > limit + PIECES_BEYOND

    def _count(self, piece: Delta | ToolCall, now_s: float) -> None:
        if not self.begun:
            self.begun, self._first_s = True, now_s
        self._last_s = now_s
        self._pieces += 1
        if isinstance(piece, Delta):
            self._chars += len(piece.text)
            self._shows_reasoning = self._shows_reasoning or piece.kind == "reasoning"
        else:
            self._chars += len(piece.arguments) + len(piece.name)
        if self._chars > MAX_ANSWER_CHARS:
            raise _malformed(f"its answer does not end within {MAX_ANSWER_CHARS:,} characters")

    def _estimated(self) -> Usage:
        return Usage(self.sent.prompt_bytes // CHARS_PER_TOKEN, 0, self._pieces)

    def _doubt(self, usage: Usage) -> str:
        """What is wrong with the counts; "" where they may be right."""
        if self._usage is None:
            return ""
        tokens, limit = usage.completion_tokens, self.sent.max_tokens
        if self._chars > LONGEST_TOKEN_CHARS * tokens:
            what = f"{tokens:,} tokens for {self._chars:,} characters of answer"
        elif limit is not None and tokens > limit + 1:
            what = f"{tokens:,} tokens of answer where {limit:,} were allowed"
        elif usage.prompt_tokens > self.sent.prompt_bytes + TEMPLATE_TOKENS:
            what = f"{usage.prompt_tokens:,} tokens for a prompt of {self.sent.prompt_bytes:,} bytes"
        else:
            return ""
        return f"The cloud counts {what}: its figures, and so the cost, are doubtful."

    def _timings(self, usage: Usage) -> Timings:
        hidden = 0 if self._shows_reasoning else min(self._hidden_tokens, usage.completion_tokens)
        tokens, seconds = usage.completion_tokens - hidden - 1, self._last_s - self._first_s
        return Timings(
            ttft_s=self._first_s - self.sent.started_s if self.begun else 0.0,
            decode_tokens_per_s=tokens / seconds if tokens > 0 and seconds > 0 else 0.0,
        )


def _malformed(what: str) -> CloudMalformed:
    return CloudMalformed(
        f"The cloud does not keep to the format: {what}.",
        "Check base_url and preset in [cloud], or let the local model answer.",
    )
