"""The generation loop: prompt in, pieces of text with their scores out.

Owns the token path: prefix reuse, chunked prefill with progress, sampling, stop
conditions, timings. Knows no native library: that is a :class:`Runtime`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from localchat.engines.constraint import Constraint
from localchat.engines.runtime import Logits, Runtime
from localchat.engines.sampler import Sampler
from localchat.engines.scores import Scorer
from localchat.engines.template import BadTemplate, ChatTemplate, render
from localchat.engines.text import TextStream
from localchat.engines.threads import ThreadTuner
from router.errors import ContextOverflow, InvalidRequest
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Finished,
    FinishReason,
    Message,
    Progress,
    ResponseFormat,
    Timings,
    TokenScore,
    Usage,
)

CHUNK_S = 0.25  # of prefill between two progress events
FIRST_CHUNK, LEAST_CHUNK, MOST_CHUNK = 128, 32, 2048
LEAST_ANSWER_TOKENS = 16  # a prompt that leaves less room does not fit


@dataclass(slots=True)
class _Tally:
    """What is counted on the way."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    prefill_s: float = 0.0
    decoded: int = 0  # the first token comes out of the prefill, decoding makes the others
    decode_s: float = 0.0

    def finished(self, reason: FinishReason) -> Finished:
        computed = self.prompt_tokens - self.cached_tokens
        return Finished(
            reason,
            Usage(self.prompt_tokens, self.cached_tokens, self.completion_tokens),
            Timings(
                prefill_tokens_per_s=computed / self.prefill_s if self.prefill_s else 0.0,
                decode_tokens_per_s=self.decoded / self.decode_s if self.decode_s else 0.0,
            ),
        )


class Generator:
    """Answers requests with one runtime, keeping its cache of the last conversation."""

    def __init__(
        self,
        runtime: Runtime,
        vocabulary_size: int,
        decode_threads: ThreadTuner,
        prefill_threads: ThreadTuner,
    ) -> None:
        self._runtime = runtime
        self._vocabulary_size = vocabulary_size
        self._decode_threads, self._prefill_threads = decode_threads, prefill_threads
        self._template: ChatTemplate | None = None
        self._scorer = Scorer(vocabulary_size)
        self._past: list[int] = []  # tokens in the runtime's cache
        self._past_text = ""  # the prompt and answer they stand for
        self._constraint_tokenizer: object = None

    # -- the prompt

    def prompt_tokens(self, messages: Sequence[Message]) -> list[int]:
        """The templated conversation as tokens, reusing those of the last answer.

        Raises InvalidRequest when the model's template fails.
        """
        return self._tokenize_prompt(messages)[0]

    def _tokenize_prompt(self, messages: Sequence[Message]) -> tuple[list[int], str]:
        runtime = self._runtime
        bos = runtime.special_text("bos")
        if self._template is None:
            self._template = self._compile(bos)
        risky = any("<" in m.content or "[" in m.content for m in messages)
        try:
            segments = render(self._template, messages, runtime.control_texts() if risky else ())
        except BadTemplate as error:
            raise InvalidRequest(str(error), "Try another file of this model.") from error
        if len(segments) == 1 and segments[0].text.startswith(self._past_text) and self._past_text:
            # The same text as what was generated, though it might tokenise otherwise
            # on its own. What follows begins with a control token: a clean cut.
            rest = runtime.tokenize(segments[0].text[len(self._past_text) :], special=True, start=False)
            if rest and not runtime.piece(rest[0]):
                return self._past + rest, segments[0].text
        tokens: list[int] = []
        for number, segment in enumerate(segments):
            start = number == 0 and not (bos and segment.text.startswith(bos))
            tokens += runtime.tokenize(segment.text, special=not segment.literal, start=start)
        return tokens, segments[0].text if len(segments) == 1 else ""

    def _compile(self, bos: str) -> ChatTemplate:
        try:
            return ChatTemplate(self._runtime.template(), bos, self._runtime.special_text("eos"))
        except BadTemplate as error:
            raise InvalidRequest(str(error), "Try another file of this model.") from error

    # -- the answer

    def answer(self, request: ChatRequest) -> Iterator[Event]:
        """Progress, then one Delta a token, then Finished.

        Raises InvalidRequest, ContextOverflow, and Aborted when the runtime was told to stop.
        """
        tokens, text = self._tokenize_prompt(request.messages)
        limit = self._answer_limit(len(tokens), request.sampling.max_tokens)
        constraint = self._constraint(request.response_format) if request.response_format else None
        tally = _Tally(prompt_tokens=len(tokens))
        yield from self._prefill(tokens, tally)
        yield from self._decode(request, constraint, limit, tally, text)

    def _answer_limit(self, prompt_tokens: int, max_tokens: int | None) -> int:
        window = self._runtime.window_tokens
        reserved = min(max_tokens or LEAST_ANSWER_TOKENS, LEAST_ANSWER_TOKENS)
        if prompt_tokens + reserved > window:
            raise ContextOverflow(prompt_tokens, window, reserved)
        return min(max_tokens or window, window - prompt_tokens)

    def _constraint(self, wanted: ResponseFormat) -> Constraint:
        if self._constraint_tokenizer is None:
            self._constraint_tokenizer = self._runtime.constraint_tokenizer()
        return Constraint(wanted, self._constraint_tokenizer, self._vocabulary_size)

    def _prefill(self, tokens: list[int], tally: _Tally) -> Iterator[Event]:
        started = time.perf_counter()
        # The last token is always computed: its logits are where the answer begins.
        common = _common_prefix(self._past, tokens[:-1])
        done = tally.cached_tokens = self._runtime.keep(common)
        del self._past[done:]
        self._past_text = ""
        total, size = len(tokens), FIRST_CHUNK
        while done < total:
            chunk = tokens[done : done + size]
            chunk_started = time.perf_counter()
            self._eval(chunk)
            seconds = time.perf_counter() - chunk_started
            done += len(chunk)
            self._prefill_threads.observe(seconds / len(chunk))
            self._apply_threads()
            rate = len(chunk) / seconds if seconds else 0.0
            size = max(LEAST_CHUNK, min(MOST_CHUNK, int(rate * CHUNK_S) // LEAST_CHUNK * LEAST_CHUNK))
            if done < total or total - tally.cached_tokens > FIRST_CHUNK:
                left = (total - done) / rate if rate else None
                yield Progress("prefill", done, total, "tokens", rate, left)
        tally.prefill_s = time.perf_counter() - started

    def _eval(self, tokens: list[int]) -> None:
        self._runtime.eval(tokens)
        self._past += tokens

    def _decode(
        self, request: ChatRequest, constraint: Constraint | None, limit: int, tally: _Tally, prompt: str
    ) -> Iterator[Event]:
        runtime, scorer, sampler = self._runtime, self._scorer, Sampler(request.sampling)
        greedy = request.sampling.temperature == 0.0 and not sampler.penalises and constraint is None
        stream, generated = TextStream(request.sampling.stop), bytearray()
        started = time.perf_counter()
        ended = False
        reason: FinishReason = "length" if request.sampling.max_tokens == limit else "context"
        while True:
            logits = runtime.logits()
            token = scorer.read(logits)
            score = scorer.score(scorer.top) if greedy else None
            if score is None:
                token, score = self._choose(logits, sampler, constraint)
            if runtime.is_end(token):
                ended, reason = True, "stop"
                break
            tally.completion_tokens += 1
            piece = runtime.piece(token)
            generated += piece
            yield Delta(stream.feed(piece), scores=(score,))
            sampler.accept(token)
            if constraint:
                constraint.accept(token)
            if stream.stopped or (constraint and constraint.complete):
                reason = "stop"
                break
            if tally.completion_tokens >= limit:
                break
            token_started = time.perf_counter()
            self._eval([token])
            now = time.perf_counter()
            tally.decode_s = now - started
            tally.decoded += 1
            self._decode_threads.observe(now - token_started)
            self._apply_threads()
        if rest := stream.end():
            yield Delta(rest)
        if prompt and ended:  # then every token of the answer is in the cache
            self._past_text = prompt + generated.decode("utf-8", "replace")
        yield tally.finished(reason)

    def _choose(
        self, logits: Logits, sampler: Sampler, constraint: Constraint | None
    ) -> tuple[int, TokenScore]:
        """A token and its score, which is of the row before penalties and constraint."""
        raw = logits.copy() if sampler.penalises else logits
        sampler.penalise(logits)
        forced = constraint.apply(logits) if constraint else False
        token = sampler.draw(logits)
        return token, self._scorer.score(float(raw[token]), forced)

    def _apply_threads(self) -> None:
        self._runtime.set_threads(self._decode_threads.count, self._prefill_threads.count)


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    length = min(len(a), len(b))
    if list(a[:length]) == list(b[:length]):
        return length
    return next(i for i in range(length) if a[i] != b[i])
