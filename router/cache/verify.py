"""Whether one answer serves two questions, asked of a model by one constrained token.

Owns the prompt, what the token's score is worth, and the deadline. A verifier only takes away: it is
asked about what similarity and guards would serve, so text that talks it into a yes gains nothing
that they refuse. Off unless an :class:`router.cache.answers.AnswerCache` is given one; the program
gives it none, because what docs/cache.md measures does not pay. Knows nothing of entries or stores.
"""

from __future__ import annotations

import asyncio
import json
import math
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from router.backend import Backend
from router.errors import RouterError
from router.request import ChatRequest, Delta, Message, ResponseFormat, Sampling, TokenScore

DEADLINE_S = 1.0  # eleven times the median on two quiet cores; then the cloud is asked
ONE_TOKEN = Sampling(temperature=0.0, max_tokens=1)
YES_OR_NO = ResponseFormat("regex", "(Yes|No)")  # capitals are how a chat model begins its answer
PROMPT_VERSION = "1"
INSTRUCTION = "Do these two questions ask the same thing? Answer Yes or No."  # other wordings: docs/cache.md


class Verifier(Protocol):
    @property
    def id(self) -> str:
        """Names the model and what it is asked; another one makes calibrations void."""
        ...

    async def agrees(self, asked: str, stored: str) -> float | None:
        """How likely one answer is right for both, 0 to 1; None where that could not be found out.

        Never raises a RouterError and never takes long.
        """
        ...


@dataclass(frozen=True, slots=True)
class Verification:
    """A verifier and the lowest of its values at which a paraphrase is served."""

    verifier: Verifier
    at_least: float
    name = "the model's verdict"

    @property
    def version(self) -> str:
        """Joins that of the guards: hits that were chosen by other rules prove nothing for these."""
        return f"{self.verifier.id} from {self.at_least:.3f}"

    async def refuses(self, asked: str, stored: str) -> str:
        """Why the stored answer may not be served, "" where it may. Silence is a refusal."""
        value = await self.verifier.agrees(asked, stored)
        if value is None:
            return "the model that compares them did not answer"
        if value >= self.at_least:
            return ""
        return f"the model that compares them says {value:.2f}, and {self.at_least:.2f} is needed"


class LocalVerifier:
    """Asks a backend that scores its tokens; in practice the model on this machine.

    That model keeps one conversation in its cache: a judgement drops it, so that the next local
    answer reads its conversation again. It waits for an answer that is being written, within the deadline.
    """

    def __init__(self, backend: Backend, deadline_s: float = DEADLINE_S) -> None:
        self._backend = backend
        self._deadline_s = deadline_s

    @property
    def id(self) -> str:
        return f"{self._backend.model}, prompt {PROMPT_VERSION}"

    async def agrees(self, asked: str, stored: str) -> float | None:
        try:
            async with asyncio.timeout(self._deadline_s):
                said = await self._first_token(judgement(asked, stored))
        except (RouterError, TimeoutError):
            return None
        return value_of(*said) if said else None

    async def _first_token(self, request: ChatRequest) -> tuple[str, TokenScore] | None:
        async with aclosing(self._backend.stream(request)) as events:
            async for event in events:
                if isinstance(event, Delta) and event.text:
                    return (event.text, event.scores[0]) if event.scores else None
        return None


def judgement(asked: str, stored: str) -> ChatRequest:
    """The questions stand in it as JSON strings: neither can end early or look like the other."""
    questions = (json.dumps(text, ensure_ascii=False) for text in (stored, asked))
    numbered = (f"{number}. {text}" for number, text in enumerate(questions, 1))
    message = Message("user", "\n".join([INSTRUCTION, *numbered]))
    return ChatRequest((message,), ONE_TOKEN, YES_OR_NO)


def value_of(text: str, score: TokenScore) -> float | None:
    """Between 0 and 1, above a half for a yes; None for anything else, and for a token that was forced.

    Only the probability p of the token taken is known, and that from before the constraint: a yes
    with p says that yes has between p and 1, a no that it has between 0 and 1 - p. The middle of
    that is taken. It ranks judgements; it is no probability until a threshold is fitted to it.
    """
    word = text.strip().lower()
    logprob = score.logprob
    if not word or score.forced or not math.isfinite(logprob) or logprob > 1e-3:  # rounded on the way
        return None
    p = min(1.0, math.exp(logprob))
    if "yes".startswith(word):
        return (1 + p) / 2
    return (1 - p) / 2 if "no".startswith(word) else None
