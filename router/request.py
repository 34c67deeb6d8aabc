"""The only types a request and its answer are made of.

Owns what may be asked (:class:`ChatRequest`) and what may come back (the
events). Knows nothing of JSON, HTTP, tokens or screens: ``cloud.wire`` and
the engines translate at their own edge.

A stream of events for one request reads, in order::

    Routed  CacheHit?  (Progress | Notice)*  Predicted?  Judged?
    (Notice | Progress | Delta | Reclassified | ToolCall)*  Validated?  Recorded?  Finished | Failed

exactly one of the last two ends it. After a HandedOff another route goes on as if from the
beginning, though text that was sent before stays; no route is taken thrice.
A model on this machine sends its first Progress of the stage "prefill" before it computes
anything: ``done`` of it was cached, ``total`` is the whole prompt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from router.decision import CacheLabel, Confidence, Decision, Route, Verdict
from router.errors import RouterError

if TYPE_CHECKING:  # at run time a prediction brings its terms along; requests need no model of speed
    from bandwidth_model.predict import DecodeTerms
    from bandwidth_model.rates import Tier

Role = Literal["system", "user", "assistant", "tool"]
Kind = Literal["text", "reasoning"]
FinishReason = Literal["stop", "length", "context", "cancelled", "tool_calls", "filtered", "unknown"]
"""stop: the model ended or met a stop string; length: max_tokens reached;
context: the context window is full; cancelled: the reader closed the stream;
tool_calls: the model wants tools called; filtered: a cloud withheld the rest;
unknown: a cloud gave no reason, or one that nobody here knows."""


@dataclass(frozen=True, slots=True)
class Message:
    """``tool_calls``, of an assistant, is a JSON array as OpenAI writes it; ``tool_call_id``, of
    a tool, says which call this answers. Both are passed through unread."""

    role: Role
    content: str
    tool_calls: str = ""
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next token is chosen. ``temperature`` 0 is greedy.

    The default temperature and top_p are those SmolLM2's makers recommend (its
    model card): a small model rambles at higher ones.

    ``max_tokens`` None means up to the end of the context window; ``seed`` None
    draws a new one for every request.
    """

    temperature: float = 0.2
    top_p: float = 0.9
    top_k: int = 40
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A constraint on the answer's text.

    ``source`` is a JSON schema (as JSON text), a regular expression, or a
    grammar in Lark (llguidance) or GBNF (llama.cpp) syntax.
    """

    kind: Literal["json_schema", "regex", "lark", "gbnf"]
    source: str


@dataclass(frozen=True, slots=True)
class Tools:
    """What the model may call: JSON texts as OpenAI writes them, passed through unread.

    ``definitions`` is an array; ``choice`` "" means that the model chooses.
    """

    definitions: str
    choice: str = ""


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What is asked. A last message by the assistant is the beginning of the answer:
    the backend goes on from its end and sends only what follows."""

    messages: tuple[Message, ...]
    sampling: Sampling = field(default_factory=Sampling)
    response_format: ResponseFormat | None = None
    tools: Tools | None = None


@dataclass(frozen=True, slots=True)
class TokenScore:
    """How sure the model was of one token, before temperature and constraints.

    ``logprob`` (nats) of the token taken; ``margin`` between the logits of the
    two likeliest tokens (nats); ``entropy`` (nats) of the whole distribution.
    ``forced`` tokens were the only ones a constraint allowed: no confidence
    may be read from them.
    """

    logprob: float
    margin: float
    entropy: float
    forced: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts. ``cached_tokens`` of the prompt were not computed again."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timings:
    """Where the seconds went. Rates are 0.0 where nothing was computed.

    ``ttft_s`` runs from the call to the first text, loading included;
    ``load_s`` is 0.0 when the model was loaded already.
    """

    load_s: float = 0.0
    ttft_s: float = 0.0
    prefill_tokens_per_s: float = 0.0
    decode_tokens_per_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Simulated:
    """The times of this answer are those of a GPU that was simulated, and so was its load.

    ``queued_requests`` waited and ``batch_size`` were computed together when it began;
    ``queue_s`` it waited itself. ``text_model`` wrote the words; ``late_tokens`` of them
    came later than their simulated time. ``estimated``: the prompt's tokens were not counted.
    ``partial``: the text model, whose window is smaller than the simulated one's, read a part only.
    """

    gpu: str
    queued_requests: int = 0
    batch_size: int = 0
    queue_s: float = 0.0
    text_model: str = ""
    late_tokens: int = 0
    estimated: bool = False
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Routed:
    decision: Decision


@dataclass(frozen=True, slots=True)
class CacheHit:
    """The answer that follows was given before, to the question in ``label``."""

    label: CacheLabel


@dataclass(frozen=True, slots=True)
class Judged:
    """The beginning of a local answer was weighed before it was shown."""

    confidence: Confidence


@dataclass(frozen=True, slots=True)
class HandedOff:
    """Another route goes on, after the first ``kept`` characters of the answer, which stay."""

    source: Route
    target: Route
    why: str
    kept: int = 0


@dataclass(frozen=True, slots=True)
class Validated:
    """The whole answer was checked; comes just before Finished."""

    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Work that is not text yet.

    ``done`` of ``total`` in ``unit``; ``rate_per_s`` and ``seconds_left`` are
    None until they can be measured.
    """

    stage: Literal["load", "measure", "prefill"]
    done: float
    total: float
    unit: Literal["fraction", "tokens"]
    rate_per_s: float | None = None
    seconds_left: float | None = None

    @property
    def fraction(self) -> float:
        return self.done / self.total if self.total else 1.0


@dataclass(frozen=True, slots=True)
class Forecast:
    """How fast a reply is expected to be, before its first token.

    ``low`` and ``high`` bound 80 % of decode rates measured where a forecast like this
    is made. ``depth`` is what the middle of the reply is expected to have before it,
    ``bytes_per_token`` what a token reads there, weights and cache; ``terms`` are the
    seconds of one token by where they go. ``prefill_s`` is for what is not cached, and
    ``ttft_s`` adds the first token. ``basis`` is one thing it rests on each, in words;
    ``verify`` the command that measures the same. ``guessed``: nothing is known of this
    machine, so that a measured rate says how far it is from others, not how good this was.
    """

    tier: Tier
    prompt_tokens: int
    cached_tokens: int
    depth: float
    threads: int
    decode_tokens_per_s: float
    low: float
    high: float
    prefill_tokens_per_s: float
    prefill_s: float
    ttft_s: float
    bytes_per_token: float
    terms: DecodeTerms
    basis: tuple[str, ...]
    verify: str
    guessed: bool = False

    def error_percent(self, measured_tokens_per_s: float) -> float | None:
        """How far a measured decode rate lies above (+) or below (-) the predicted one.

        None where that was a guess.
        """
        if self.guessed:
            return None
        return 100 * (measured_tokens_per_s / self.decode_tokens_per_s - 1)


@dataclass(frozen=True, slots=True)
class Predicted:
    """Made before the first token; what is measured is scored against this."""

    forecast: Forecast


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the reader should know that does not end the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Delta:
    """The next piece of the answer, with one score per token it carries.

    ``text`` may be empty (a token that ends within a character) and several
    tokens may share one Delta.
    """

    text: str
    kind: Kind = "text"
    scores: tuple[TokenScore, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A piece of a call that the model wants made; pieces of one ``index`` belong together.

    ``call_id`` and ``name`` come with the first, ``arguments`` is the next piece of their JSON text.
    """

    index: int
    call_id: str = ""
    name: str = ""
    arguments: str = ""


def joined_calls(pieces: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """Whole calls from their pieces, in the order of their index."""
    calls: dict[int, ToolCall] = {}
    for piece in pieces:
        begun = calls.get(piece.index, ToolCall(piece.index))
        calls[piece.index] = ToolCall(
            piece.index,
            begun.call_id + piece.call_id,
            begun.name + piece.name,
            begun.arguments + piece.arguments,
        )
    return tuple(calls[index] for index in sorted(calls))


@dataclass(frozen=True, slots=True)
class Reclassified:
    """All text sent so far was reasoning: its closing mark had no opening one."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The ledger keeps this answer's story under ``entry``; comes just before Finished."""

    entry: str


@dataclass(frozen=True, slots=True)
class Finished:
    """``cost_usd`` is 0 for what this machine computed, None where no price is known.

    ``usage_is_estimate``: whoever answered did not count, so the counts are guesses from lengths.
    """

    finish_reason: FinishReason
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    model: str = ""
    cost_usd: float | None = 0.0
    usage_is_estimate: bool = False
    simulated: Simulated | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The answer ended with an error; what was sent before stays valid."""

    error: RouterError


Event = (
    Routed
    | CacheHit
    | Progress
    | Predicted
    | Notice
    | Judged
    | HandedOff
    | Delta
    | ToolCall
    | Reclassified
    | Validated
    | Recorded
    | Finished
    | Failed
)
