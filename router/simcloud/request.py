"""What is asked of a simulated server, and what is known of it only afterwards.

Owns the values that enter and leave an engine. A scheduler sees a Request; the
true length of the answer is in the Job, which only the engine opens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Request:
    """``max_tokens`` bounds the answer; ``predicted_tokens`` is a guess of it (an oracle's, if exact).

    ``prefix`` names the content of the prompt block by block, ``prefix_block_tokens`` each: two prompts
    that begin with the same names begin with the same tokens. A smaller ``priority`` goes first.
    """

    id: int
    arrived_s: float
    prompt_tokens: int
    max_tokens: int
    predicted_tokens: float | None = None
    priority: int = 0
    prefix: tuple[int, ...] = ()
    prefix_block_tokens: int = 16
    adapter: str = ""
    samples: int = 1  # answers to the one prompt

    @property
    def bound_tokens(self) -> int:
        """Tokens it may come to hold in the KV cache."""
        return self.prompt_tokens + self.max_tokens


@dataclass(frozen=True, slots=True)
class Job:
    """``output_tokens`` None: it ends when somebody says so, or at the request's bound.

    ``transcript`` names prompt and answer as a request's ``prefix`` names a prompt, if a later prompt may
    contain both.
    """

    request: Request
    output_tokens: int | None = None
    transcript: tuple[int, ...] = ()
    other_samples: tuple[int, ...] = ()  # lengths of the answers after the first, if they differ from it

    @property
    def length(self) -> int:
        bound = self.request.max_tokens
        return bound if self.output_tokens is None else min(self.output_tokens, bound)

    def length_of(self, sample: int) -> int:
        if not 0 < sample <= len(self.other_samples):
            return self.length
        return min(self.other_samples[sample - 1], self.request.max_tokens)

    def arriving(self, at_s: float) -> Job:
        return replace(self, request=replace(self.request, arrived_s=at_s))


@dataclass(frozen=True, slots=True)
class Completed:
    """One request's life. Times are of the virtual clock. Of several samples it is that of the last to end;
    ``other_tokens`` are those of the others."""

    request: Request
    output_tokens: int
    admitted_s: float
    first_token_s: float
    finished_s: float
    preemptions: int
    cached_tokens: int
    replica: int = 0
    other_tokens: int = 0

    @property
    def ttft_s(self) -> float:
        return self.first_token_s - self.request.arrived_s

    @property
    def tpot_s(self) -> float | None:
        """Undefined for a single token."""
        if self.output_tokens < 2:
            return None
        return (self.finished_s - self.first_token_s) / (self.output_tokens - 1)

    @property
    def e2e_s(self) -> float:
        return self.finished_s - self.request.arrived_s

    @property
    def queued_s(self) -> float:
        return self.admitted_s - self.request.arrived_s


@dataclass(frozen=True, slots=True)
class Rejected:
    request: Request
    at_s: float
    why: str
