"""A Runtime without a model: bytes as tokens, and logits that follow from all the text seen.

The same text gives the same logits however it is cut into tokens, and any token
lost, doubled or out of place gives others: what a cache must get right shows.
"""

from __future__ import annotations

import copy
import re
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from localchat.engines.generate import Generator
from localchat.engines.runtime import Aborted, Logits
from localchat.engines.threads import ThreadTuner
from tests.localchat.engines.templates import CHATML

CONTROLS = ("<s>", "<|im_start|>", "<|im_end|>", "<|other_end|>", "@@mark@@")
BOS, START, END, OTHER_END, MARK = range(256, 261)
WORDS = ("ab", "the ", "user", "é", "\n")  # tokens of several bytes: text has several readings
VOCABULARY = [
    *(bytes([b]) for b in range(256)),
    *(c.encode() for c in CONTROLS),
    *(w.encode() for w in WORDS),
]
SAID = [*b"ab the\n<|.", *range(256 + len(CONTROLS), len(VOCABULARY))]
"""What the model says: words and their letters, and beginnings of control texts."""
ROWS = np.random.default_rng(0).normal(0, 2, (509, len(SAID)))


class FakeRuntime:
    """``abort_at`` raises Aborted at that eval from now; ``chatty`` is how seldom it ends."""

    def __init__(
        self, window_tokens: int = 8192, template: str = CHATML, bos: str = "", chatty: int = 12
    ) -> None:
        self.window_tokens = window_tokens
        self.tokens: list[int] = []
        self._states = [0]  # of the text up to each token
        self.evals: list[list[int]] = []
        self.threads: list[tuple[int, int]] = []
        self.abort_at: int | None = None
        self.branch_calls: list[set[int]] = []
        self.open_branches = 0
        self.cuttable = True
        self._template, self._bos, self._chatty = template, bos, chatty
        self._row = np.zeros(len(VOCABULARY), np.float32)

    # -- text

    def tokenize(self, text: str, *, special: bool, start: bool) -> list[int]:
        tokens = [BOS] if start and self._bos else []
        controls = "|".join(map(re.escape, CONTROLS))
        for number, piece in enumerate(re.split(f"({controls})", text) if special else [text]):
            if number % 2:
                tokens.append(256 + CONTROLS.index(piece))
            else:
                tokens += self._words(piece.encode())
        return tokens

    def _words(self, data: bytes) -> list[int]:
        words = b"|".join(re.escape(word.encode()) for word in WORDS)
        return [
            piece[0]
            if len(piece) == 1 and piece != b"\n"
            else 256 + len(CONTROLS) + WORDS.index(piece.decode())
            for piece in re.findall(b"(?s)%b|." % words, data)
        ]

    def piece(self, token: int) -> bytes:
        return b"" if 256 <= token < 256 + len(CONTROLS) else VOCABULARY[token]

    def control_texts(self) -> Sequence[str]:
        return sorted(CONTROLS, key=len, reverse=True)

    def is_end(self, token: int) -> bool:
        return token in (END, OTHER_END)

    def template(self) -> str:
        return self._template

    def special_text(self, which: str) -> str:
        return self._bos if which == "bos" else "<|im_end|>"

    def constraint_tokenizer(self) -> Any:
        from llguidance import LLTokenizer, TokenizerWrapper

        return LLTokenizer(TokenizerWrapper(_ForGuidance()))

    # -- computing

    def keep(self, count: int) -> int:
        if count < len(self.tokens) and not self.cuttable:
            count = 0
        del self.tokens[count:], self._states[count + 1 :]
        return len(self.tokens)

    def eval(self, tokens: Sequence[int]) -> None:
        assert tokens
        assert len(self.tokens) + len(tokens) <= self.window_tokens
        if self.abort_at is not None:
            self.abort_at -= 1
            if self.abort_at < 0:
                self._row[:] = np.nan
                raise Aborted
        self.evals.append(list(tokens))
        self.tokens += tokens
        for token in tokens:
            self._states.append(zlib.crc32(VOCABULARY[token], self._states[-1]))
        self._compute(self._states[-1])

    def _compute(self, state: int) -> None:
        self._row[:] = -30.0
        self._row[SAID] = ROWS[state % len(ROWS)]
        if state // len(ROWS) % self._chatty == 0:
            self._row[END if state % 2 else OTHER_END] = 20.0

    def logits(self) -> Logits:
        assert self.tokens
        return self._row

    def branches(self, count: int, tokens: int) -> FakeBranches:
        return FakeBranches(self, count, tokens)

    def set_threads(self, decode: int, prefill: int) -> None:
        self.threads.append((decode, prefill))

    def abort(self, on: bool) -> None:
        self.abort_at = 0 if on else None


class FakeBranches:
    """Copies of a FakeRuntime. ``calls`` holds which branches each computation was for."""

    def __init__(self, runtime: FakeRuntime, count: int, tokens: int) -> None:
        self._copies = [copy.deepcopy(runtime) for _ in range(count)]
        self._most = len(runtime.tokens) + tokens
        self._runtime = runtime
        runtime.branch_calls = []
        runtime.open_branches += 1

    def eval(self, tokens: Mapping[int, int]) -> None:
        self._runtime.branch_calls.append(set(tokens))
        for branch, token in tokens.items():
            self._copies[branch].eval([token])
            assert len(self._copies[branch].tokens) <= self._most

    def logits(self, branch: int) -> Logits:
        assert branch in self._runtime.branch_calls[-1]
        return self._copies[branch].logits()

    def close(self) -> None:
        self._runtime.open_branches -= 1


class _ForGuidance:
    eos_token_id, bos_token_id = END, BOS

    def __init__(self) -> None:
        self.special_token_ids = list(range(256, 256 + len(CONTROLS)))
        self.tokens = [
            b"\xff" + token if number in self.special_token_ids else token
            for number, token in enumerate(VOCABULARY)
        ]

    def __call__(self, data: bytes) -> list[int]:
        return list(data)


def generator_of(runtime: FakeRuntime, counts: tuple[int, ...] = (1,)) -> Generator:
    decode, prefill = ThreadTuner(counts, counts[-1]), ThreadTuner(counts, counts[-1])
    return Generator(runtime, len(VOCABULARY), decode, prefill)
