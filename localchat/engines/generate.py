"""The generation loop: prompt in, pieces of text with their scores out.

Owns the token path: prefix reuse, chunked prefill with progress, sampling, stop
conditions, timings. Knows no native library: that is a :class:`Runtime`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from localchat.engines.constraint import Constraint
from localchat.engines.prompt import Prompt, Prompter
from localchat.engines.protocol import Measure, Measurement, Votes
from localchat.engines.runtime import Logits, Runtime
from localchat.engines.sampler import Sampler
from localchat.engines.scores import Scorer
from localchat.engines.text import TextStream
from localchat.engines.threads import ThreadTuner, median
from localchat.engines.vote import MOST_TOKENS, MOST_VOTES, ballot
from router.errors import ContextOverflow, InvalidRequest
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Finished,
    FinishReason,
    Message,
    Notice,
    Progress,
    ResponseFormat,
    Timings,
    TokenScore,
    Usage,
)

CHUNK_S = 0.25  # of prefill between two progress events
FIRST_CHUNK, LEAST_CHUNK, MOST_CHUNK = 128, 32, 2048
WARMING_TOKENS = 1  # before tokens are timed
FILLED_AT_ONCE = 512  # tokens of a context that only has to be there
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
        self._prompter = Prompter(runtime)
        self._scorer = Scorer(vocabulary_size)
        self._past = Prompt([], "")  # what the runtime's cache holds
        self._constraint_tokenizer: object = None

    def prompt_tokens(self, messages: Sequence[Message]) -> list[int]:
        """The templated conversation as tokens. Raises InvalidRequest when the template fails."""
        return self._prompter.prompt(messages, self._past).tokens

    # -- the answer

    def answer(self, request: ChatRequest) -> Iterator[Event]:
        """Progress, the first of it with what was cached, then one Delta a token, then Finished.

        Raises InvalidRequest, ContextOverflow, and Aborted when the runtime was told to stop.
        """
        prompt = self._prompter.prompt(request.messages, self._past)
        limit = self._answer_limit(len(prompt.tokens), request.sampling.max_tokens)
        constraint = self._constraint(request.response_format) if request.response_format else None
        tally = _Tally(prompt_tokens=len(prompt.tokens))
        if not self._past.tokens and not self._runtime.template():
            yield Notice("This file has no chat template; it may be a base model, whose answers ramble.")
        yield from self._prefill(prompt.tokens, tally)
        yield from self._decode(request, constraint, limit, tally, prompt.text)

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
        common = _common_prefix(self._past.tokens, tokens[:-1])
        done = tally.cached_tokens = self._runtime.keep(common)
        self._past = Prompt(self._past.tokens[:done], "")
        total, size = len(tokens), FIRST_CHUNK
        yield Progress("prefill", done, total, "tokens")  # exact counts, before anything is computed
        while done < total:
            chunk = tokens[done : done + size]
            chunk_started = time.perf_counter()
            self._eval(chunk)
            seconds = time.perf_counter() - chunk_started
            done += len(chunk)
            if len(chunk) == size:  # the last one is shorter, and costs more a token
                self._prefill_threads.observe(seconds / len(chunk), seconds)
                self._apply_threads()
            rate = len(chunk) / seconds if seconds else 0.0
            size = max(LEAST_CHUNK, min(MOST_CHUNK, int(rate * CHUNK_S) // LEAST_CHUNK * LEAST_CHUNK))
            if done < total or total - tally.cached_tokens > FIRST_CHUNK:
                left = (total - done) / rate if rate else None
                yield Progress("prefill", done, total, "tokens", rate, left)
        tally.prefill_s = time.perf_counter() - started

    def _eval(self, tokens: list[int]) -> None:
        self._runtime.eval(tokens)
        self._past.tokens.extend(tokens)

    def _decode(
        self, request: ChatRequest, constraint: Constraint | None, limit: int, tally: _Tally, prompt: str
    ) -> Iterator[Event]:
        runtime, scorer, sampler = self._runtime, self._scorer, Sampler(request.sampling)
        greedy = request.sampling.temperature == 0.0 and not sampler.penalises and constraint is None
        stream, generated = TextStream(request.sampling.stop), bytearray()
        started = time.perf_counter()
        ended, fewest = False, self._decode_threads.settled
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
            if notice := self._adapt(now - token_started, fewest):
                fewest = self._decode_threads.settled
                yield notice
        if rest := stream.end():
            yield Delta(rest)
        if prompt and ended:  # then every token of the answer is in the cache
            self._past = Prompt(self._past.tokens, prompt + generated.decode("utf-8", "replace"))
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

    def _adapt(self, token_s: float, fewest: int) -> Notice | None:
        """Let the decode threads follow; the first time they become fewer is worth saying."""
        self._decode_threads.observe(token_s)
        self._apply_threads()
        settled = self._decode_threads.settled
        if settled >= fewest:
            return None
        plural = "s" if settled > 1 else ""
        return Notice(f"Another program is using a core: decoding with {settled} thread{plural} for now.")

    # -- several answers

    def vote(self, request: ChatRequest, count: int) -> Votes:
        """``count`` short answers to one request, computed together. Raises as :meth:`answer` does."""
        if not 1 <= count <= MOST_VOTES:
            raise InvalidRequest(f"{count} votes cannot be drawn.", f"Ask for 1 to {MOST_VOTES}.")
        prompt = self._prompter.prompt(request.messages, self._past)
        limit = min(MOST_TOKENS, self._answer_limit(len(prompt.tokens), request.sampling.max_tokens))
        wanted = request.response_format
        constraints = [self._constraint(wanted) if wanted else None for _ in range(count)]
        for _ in self._prefill(prompt.tokens, _Tally()):
            pass  # who wants votes sees no progress: the prompt was computed for its answer before
        answers, calls = ballot(self._runtime, request.sampling, constraints, limit)
        return Votes(answers, calls)

    # -- measuring

    def measure(self, wanted: Measure) -> Measurement:
        """Time a prompt and tokens at a depth: the steps of an answer, but for choosing words.

        Raises InvalidRequest where the context is too short, and Aborted.
        """
        runtime, scorer = self._runtime, self._scorer
        last = max(wanted.depth, wanted.prompt_tokens)
        if max(last, wanted.depth + wanted.tokens + WARMING_TOKENS) > runtime.window_tokens:
            raise InvalidRequest(
                f"A depth of {wanted.depth:,} and what is decoded there exceed the context of "
                f"{runtime.window_tokens:,} tokens.",
                "Choose smaller depths.",
            )
        self._past = Prompt([], "")
        runtime.set_threads(wanted.threads, wanted.threads)
        try:
            self._stand_at(last - wanted.prompt_tokens)
            started = time.perf_counter()
            if wanted.prompt_tokens:
                runtime.eval(_spread(wanted.prompt_tokens, self._vocabulary_size))
            prefill_s = time.perf_counter() - started
            self._stand_at(wanted.depth)
            token_s, score_s = [], []
            for token in _spread(wanted.tokens + WARMING_TOKENS, self._vocabulary_size):
                started = time.perf_counter()
                runtime.eval([token])
                logits, computed = runtime.logits(), time.perf_counter()
                scorer.read(logits)
                scorer.score(scorer.top)
                ended = time.perf_counter()
                token_s.append(ended - started)
                score_s.append(ended - computed)
            return Measurement(wanted, tuple(token_s[WARMING_TOKENS:]), median(score_s), prefill_s)
        finally:
            self._apply_threads()

    def _stand_at(self, depth: int) -> None:
        """Make the cache hold ``depth`` tokens, whichever."""
        missing = depth - self._runtime.keep(depth)
        while missing > 0:
            self._runtime.eval(_spread(min(missing, FILLED_AT_ONCE), self._vocabulary_size))
            missing -= FILLED_AT_ONCE

    def _apply_threads(self) -> None:
        self._runtime.set_threads(self._decode_threads.count, self._prefill_threads.count)


def _spread(count: int, vocabulary_size: int) -> list[int]:
    """Token numbers from all over the vocabulary, the same every time."""
    return [at * 7919 % vocabulary_size for at in range(count)]


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    length = min(len(a), len(b))
    if list(a[:length]) == list(b[:length]):
        return length
    return next(i for i in range(length) if a[i] != b[i])
