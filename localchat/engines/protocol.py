"""How requests and events cross the pipe between the program and its worker.

Plain dicts of JSON types both ways; only the program's own two processes speak it,
always of the same version.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from router.request import (
    ChatRequest,
    Delta,
    Event,
    Finished,
    Message,
    Notice,
    Progress,
    ResponseFormat,
    Sampling,
    Timings,
    TokenScore,
    Usage,
)

Wire = dict[str, Any]


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How to load a model; 0 means chosen for this machine (see EngineSettings)."""

    path: str
    ctx: int = 0
    threads: int = 0
    prefill_threads: int = 0
    kv_type: str = "f16"
    gpu_layers: int = 0
    lora: str = ""
    lora_scale: float = 1.0
    cache_folder: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """What is to be timed: ``tokens`` decoded at ``depth``, before that a prompt that ends there.

    The prompt has ``prompt_tokens`` and begins at depth 0 where it is longer than ``depth``.
    """

    depth: int
    threads: int
    tokens: int = 32
    prompt_tokens: int = 512


@dataclass(frozen=True, slots=True)
class Measurement:
    """``token_s``: seconds of every decoded token, in order; of it ``score_s`` (median) for its scores."""

    wanted: Measure
    token_s: tuple[float, ...]
    score_s: float
    prefill_s: float

    @property
    def decode_tokens_per_s(self) -> float:
        """By the median token: one that another program delayed does not count for many."""
        return 1 / median(self.token_s)

    @property
    def prefill_tokens_per_s(self) -> float:
        return self.wanted.prompt_tokens / self.prefill_s


@dataclass(frozen=True, slots=True)
class Votes:
    """Answers drawn side by side to one request; ``decode_calls`` is how often the model was computed
    for all of them together, the prompt not counted."""

    answers: tuple[str, ...]
    decode_calls: int


def measurement_from_wire(wire: Wire) -> Measurement:
    return Measurement(Measure(**wire["wanted"]), tuple(wire["token_s"]), wire["score_s"], wire["prefill_s"])


def request_to_wire(request: ChatRequest) -> Wire:
    return {
        "messages": [[m.role, clean(m.content)] for m in request.messages],
        "sampling": asdict(request.sampling),
        "format": asdict(request.response_format) if request.response_format else None,
    }


def request_from_wire(wire: Wire) -> ChatRequest:
    sampling = Sampling(**{**wire["sampling"], "stop": tuple(wire["sampling"]["stop"])})
    wanted = ResponseFormat(**wire["format"]) if wire["format"] else None
    return ChatRequest(tuple(Message(role, text) for role, text in wire["messages"]), sampling, wanted)


def clean(text: str) -> str:
    """Lone surrogates, which no tokenizer can read, become U+FFFD."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def options_from_wire(wire: Wire) -> LoadOptions:
    return LoadOptions(**wire)


def event_to_wire(event: Event) -> Wire:
    match event:
        case Delta():
            return {"text": event.text, "scores": [_score(s) for s in event.scores]}
        case Progress():
            return {"progress": asdict(event)}
        case Notice():
            return {"notice": event.text}
        case Finished():
            return {"end": asdict(event)}
        case _:
            raise TypeError(f"an engine does not send {type(event).__name__}")


def event_from_wire(wire: Wire) -> Event:
    match wire:
        case {"text": text, "scores": scores}:
            return Delta(text, scores=tuple(TokenScore(*s) for s in scores))
        case {"progress": progress}:
            return Progress(**progress)
        case {"notice": text}:
            return Notice(text)
        case {"end": end}:
            usage, timings = Usage(**end.pop("usage")), Timings(**end.pop("timings"))
            return Finished(usage=usage, timings=timings, **end)
        case _:
            raise ValueError(f"unknown event from the worker: {wire!r}")


def _score(score: TokenScore) -> tuple[float, float, float, bool]:
    return (round(score.logprob, 4), round(score.margin, 4), round(score.entropy, 4), score.forced)
