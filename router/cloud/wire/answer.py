"""An answer, whole or in chunks, as JSON both ways.

Owns the forms of chunks, usage and finish reasons. Does not know how bytes arrive, and
keeps nothing from one chunk to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from router.cloud.wire.fields import Json, NotAsAgreed, count, mapping, said, seconds, text
from router.request import Delta, FinishReason, Simulated, ToolCall, Usage, joined_calls

Piece = Delta | ToolCall
MAX_INDEX = 1000  # tool calls in one answer
SIMULATED = "SIMULATED"

REASONS_IN: Mapping[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",  # TGI 1, SGLang
    "eos_token": "stop",  # TGI
    "stop_sequence": "stop",  # TGI
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "filtered",
    "abort": "cancelled",  # vLLM
}
REASONS_OUT: Mapping[FinishReason, str] = {
    "stop": "stop",
    "length": "length",
    "context": "length",
    "cancelled": "stop",
    "tool_calls": "tool_calls",
    "filtered": "content_filter",
    "unknown": "stop",
}


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one chunk adds. ``opens``: it is the first, with the role and no text.

    ``reasoning_tokens`` of the completion were reasoning, whether it was shown or not.
    """

    pieces: tuple[Piece, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    simulated: Simulated | None = None
    model: str = ""
    opens: bool = False
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reply:
    """What is constant over all chunks of one answer. ``created_s`` since the epoch."""

    id: str
    created_s: int
    model: str


# -- in


def chunk_from_json(body: Json) -> Chunk:
    """Tolerates what is unknown or absent; NotAsAgreed for what cannot be a chunk."""
    return _read(body, "delta")


def completion_from_json(body: Json) -> Chunk:
    """A whole answer as one chunk."""
    if not body.get("choices"):
        raise NotAsAgreed("it has no choices")
    return _read(body, "message")


def _read(body: Json, part: str) -> Chunk:
    choices = body.get("choices", [])
    if choices is not None and not isinstance(choices, list):
        raise NotAsAgreed("its choices are not a list")
    # only one answer was asked for; others would be mixed into it
    ours = [c for c in choices or () if isinstance(c, dict) and c.get("index", 0) in (0, None)]
    choice: Json = ours[0] if ours else {}
    delta = mapping(choice, part)
    usage, simulated = usage_from_json(mapping(body, "usage"))
    simulated = simulated or _simulated_from_json(mapping(body, "simulated"))
    return Chunk(
        tuple(_pieces(delta)),
        _reason(choice.get("finish_reason")),
        usage,
        simulated,
        said(body.get("model"), 100),
        delta.get("role") == "assistant" and not any(_pieces(delta)),
        count(mapping(mapping(body, "usage"), "completion_tokens_details"), "reasoning_tokens") or 0,
    )


def _pieces(delta: Json) -> Iterator[Piece]:
    # reasoning_content: DeepSeek, vLLM, SGLang, llama.cpp; reasoning: OpenRouter, Ollama
    if reasoning := text(delta, "reasoning_content") or text(delta, "reasoning"):
        yield Delta(reasoning, "reasoning")
    if content := text(delta, "content") or text(delta, "refusal"):
        yield Delta(content)
    calls = delta.get("tool_calls")
    for place, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, dict):
            function, index = mapping(call, "function"), call.get("index", place)
            if type(index) is not int or not 0 <= index < MAX_INDEX:
                raise NotAsAgreed("the index of a tool call makes no sense")
            yield ToolCall(index, text(call, "id"), text(function, "name"), text(function, "arguments"))


def _reason(word: object) -> FinishReason | None:
    if not isinstance(word, str) or not word:
        return None
    if word == "error":  # OpenRouter, vLLM: the answer broke off over there
        raise NotAsAgreed("it ends with finish_reason error")
    return REASONS_IN.get(word, "unknown")


def usage_from_json(body: Json) -> tuple[Usage | None, Simulated | None]:
    """Counts, None where they make no sense; and what a simulated cloud says of itself."""
    prompt, completion = count(body, "prompt_tokens"), count(body, "completion_tokens")
    cached = count(mapping(body, "prompt_tokens_details"), "cached_tokens")
    cached = cached if cached is not None else count(body, "prompt_cache_hit_tokens")  # DeepSeek
    usage = None
    if prompt is not None and completion is not None:
        usage = Usage(prompt, min(cached or 0, prompt), completion)
    return usage, _simulated_from_json(mapping(body, "simulated"))


def _simulated_from_json(body: Json) -> Simulated | None:
    if not body:
        return None
    return Simulated(
        said(body.get("gpu"), 60),
        count(body, "queued_requests") or 0,
        count(body, "batch_size") or 0,
        seconds(body, "queue_s"),
        said(body.get("text_model"), 100),
        count(body, "late_tokens") or 0,
        body.get("estimated") is True,
        body.get("partial") is True,
    )


# -- out


def chunk_to_json(reply: Reply, chunk: Chunk) -> dict[str, Any]:
    """One chunk of a stream; the one with only usage has no choices, as OpenAI's last chunk."""
    body = _envelope(reply, "chat.completion.chunk")
    if chunk.usage is None or chunk.pieces or chunk.finish_reason or chunk.opens:
        delta = _message(chunk.pieces, with_index=True)
        if chunk.opens:
            delta |= {"role": "assistant", "content": ""}
        body["choices"] = [_choice("delta", delta, chunk.finish_reason)]
    if chunk.usage is not None:
        body["usage"] = usage_to_json(chunk.usage, chunk.simulated)
    elif chunk.simulated:  # to a client that asked for no usage
        body["simulated"] = _simulated_to_json(chunk.simulated)
    return body


def completion_to_json(reply: Reply, whole: Chunk) -> dict[str, Any]:
    """An answer that is not streamed. Pieces of the same kind, and of the same call, are joined."""
    message = {"role": "assistant", "content": "", **_message(_joined(whole.pieces), with_index=False)}
    body = _envelope(reply, "chat.completion")
    body["choices"] = [_choice("message", message, whole.finish_reason)]
    body["usage"] = usage_to_json(whole.usage or Usage(), whole.simulated)
    return body


def text_chunk_to_json(reply: Reply, chunk: Chunk) -> dict[str, Any]:
    """One chunk of a streamed text completion. It has no opening chunk and no roles."""
    body = text_completion_to_json(reply, chunk)
    if chunk.usage is None:
        del body["usage"]
        if chunk.simulated:
            body["simulated"] = _simulated_to_json(chunk.simulated)
    elif not chunk.pieces and not chunk.finish_reason:
        body["choices"] = []
    return body


def text_completion_to_json(reply: Reply, whole: Chunk) -> dict[str, Any]:
    """A text completion: OpenAI's older form, https://platform.openai.com/docs/api-reference/completions"""
    body = _envelope(reply, "text_completion")
    words = "".join(piece.text for piece in whole.pieces if isinstance(piece, Delta))
    word = REASONS_OUT[whole.finish_reason] if whole.finish_reason else None
    body["choices"] = [{"index": 0, "text": words, "logprobs": None, "finish_reason": word}]
    body["usage"] = usage_to_json(whole.usage or Usage(), whole.simulated)
    return body


def usage_to_json(usage: Usage, simulated: Simulated | None = None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
    if simulated:
        body["simulated"] = _simulated_to_json(simulated)
    return body


def _simulated_to_json(simulated: Simulated) -> dict[str, Any]:
    return {"label": SIMULATED, **asdict(simulated)}


def _envelope(reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": reply.id,
        "object": kind,
        "created": reply.created_s,
        "model": reply.model,
        "choices": [],
    }


def _choice(part: str, content: dict[str, Any], reason: FinishReason | None) -> dict[str, Any]:
    word = REASONS_OUT[reason] if reason else None
    return {"index": 0, part: content, "logprobs": None, "finish_reason": word}


def _message(pieces: Iterable[Piece], *, with_index: bool) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for piece in pieces:
        if isinstance(piece, ToolCall):
            body.setdefault("tool_calls", []).append(_call(piece, with_index))
        else:
            name = "reasoning_content" if piece.kind == "reasoning" else "content"
            body[name] = body.get(name, "") + piece.text
    return body


def _call(piece: ToolCall, with_index: bool) -> dict[str, Any]:
    function = {"name": piece.name} if piece.name else {}
    call: dict[str, Any] = {"index": piece.index} if with_index else {}
    if piece.call_id:
        call |= {"id": piece.call_id, "type": "function"}
    return call | {"function": function | {"arguments": piece.arguments}}


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    given = tuple(pieces)
    texts = [piece for piece in given if not isinstance(piece, ToolCall)]
    return [*texts, *joined_calls(piece for piece in given if isinstance(piece, ToolCall))]
