"""A request for a chat completion, read from JSON that a client wrote.

Owns what a server accepts and which field it names when it does not. Unknown fields never
fail. Does not know which models there are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from router.cloud.wire.fields import Json, clean, mapping, text
from router.errors import InvalidRequest
from router.request import ChatRequest, Message, ResponseFormat, Role, Sampling, Tools

T = TypeVar("T", int, float)
ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
CONSTRAINTS: Mapping[str, Literal["regex", "gbnf", "lark"]] = {
    "structured_outputs.regex": "regex",
    "structured_outputs.grammar": "gbnf",
    "regex": "regex",
    "ebnf": "gbnf",
    "grammar": "gbnf",
}
"""Where constraints other than a schema are found in a request: vLLM's, SGLang's, llama.cpp's names."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a server was asked: the request, for which model, and how the answer is to come.

    ``include_times``: of a simulated cloud, each chunk says when it was due.
    """

    request: ChatRequest
    model: str = ""
    stream: bool = False
    include_usage: bool = False
    include_times: bool = False


def call_from_json(body: Json) -> Call:
    """What a client asks. Unknown fields pass; InvalidRequest names the field that is wrong."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise InvalidRequest("messages must be a list with at least one message.", param="messages")
    _refuse_what_nobody_gives(body)
    request = ChatRequest(
        tuple(_message_from_json(message) for message in messages),
        _sampling_from_json(body),
        _format_from_json(body),
        _tools_from_json(body),
    )
    return _call(body, request)


def text_call_from_json(body: Json) -> Call:
    """What a client of the older text completions asks: an answer that is begun, to be gone on with.

    Raises InvalidRequest, which names the field that is wrong.
    """
    prompt = body.get("prompt")
    prompts = prompt if isinstance(prompt, list) else [prompt]
    if len(prompts) != 1 or not isinstance(prompts[0], str) or not prompts[0]:
        raise InvalidRequest("prompt must be one text that is not empty.", param="prompt")
    _refuse_what_nobody_gives(body)
    for name, unset in (("echo", False), ("suffix", ""), ("best_of", 1)):
        if body.get(name) not in (None, unset):
            raise InvalidRequest(f"{name} is not supported.", "Leave it out.", param=name)
    request = ChatRequest(
        (Message("assistant", clean(prompts[0])),), _sampling_from_json(body), _format_from_json(body)
    )
    return _call(body, request)


def _call(body: Json, request: ChatRequest) -> Call:
    options = mapping(body, "stream_options")
    return Call(
        request,
        text(body, "model"),
        body.get("stream") is True,
        options.get("include_usage") is True,
        options.get("include_simulated_time") is True,
    )


def _refuse_what_nobody_gives(body: Json) -> None:
    """Fields that change what an answer is: leaving them unread would be a wrong answer."""
    if body.get("n") not in (None, 1):
        raise InvalidRequest("n must be 1: one answer a request is all there is.", param="n")
    for name in ("logprobs", "top_logprobs", "prompt_logprobs"):
        if body.get(name) not in (None, False) and type(body[name]) in (bool, int):
            raise InvalidRequest(f"{name} cannot be given.", "Leave it out.", param=name)


def _message_from_json(message: object) -> Message:
    if not isinstance(message, dict) or message.get("role") not in ROLES:
        raise InvalidRequest(f"A message's role must be one of {', '.join(ROLES)}.", param="messages")
    calls = message.get("tool_calls")
    return Message(
        ROLES[message["role"]],
        _content(message.get("content")),
        _dumped(calls) if isinstance(calls, list) and calls else "",
        text(message, "tool_call_id"),
    )


def _content(content: object) -> str:
    """A message's text, which may come in parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return clean(content)
    if not isinstance(content, list):
        raise InvalidRequest("A message's content must be text or a list of parts.", param="messages")
    if not all(isinstance(part, dict) and part.get("type") == "text" for part in content):
        raise InvalidRequest("Only text can be read: images, audio and files cannot.", param="messages")
    return "".join(text(part, "text") for part in content)


def _sampling_from_json(body: Json) -> Sampling:
    fields: dict[str, Any] = {
        "temperature": _number(body, "temperature", float, 0, 5),
        "top_p": _number(body, "top_p", float, 0, 1),
        "frequency_penalty": _number(body, "frequency_penalty", float, -10, 10),
        "presence_penalty": _number(body, "presence_penalty", float, -10, 10),
        "seed": _number(body, "seed", int, -(2**63), 2**63 - 1),
        "max_tokens": _first(
            _number(body, "max_completion_tokens", int, 1, 2**31 - 1),
            _number(body, "max_tokens", int, 1, 2**31 - 1),
        ),
        "top_k": _top_k(body),
        "min_p": _number(body, "min_p", float, 0, 1),
        "repeat_penalty": _first(
            _number(body, "repetition_penalty", float, 0, 100),
            _number(body, "repeat_penalty", float, 0, 100),
        ),
        "stop": _stop(body.get("stop")),
    }
    return Sampling(**{name: value for name, value in fields.items() if value is not None})


def _top_k(body: Json) -> int | None:
    """-1 is vLLM's word for all of them."""
    value = _number(body, "top_k", int, -1, 2**31 - 1)
    return 0 if value == -1 else value


def _first(*values: object) -> object:
    return next((value for value in values if value is not None), None)


def _number(body: Json, name: str, kind: type[T], least: float, most: float) -> T | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) not in (int, kind) or not math.isfinite(value) or not least <= value <= most:
        raise InvalidRequest(f"{name} must be a number between {least:g} and {most:g}.", param=name)
    return kind(value)


def _stop(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    stops = [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) for stop in stops):
        raise InvalidRequest("stop must be text or a list of texts.", param="stop")
    return tuple(clean(stop) for stop in stops if stop)


def _format_from_json(body: Json) -> ResponseFormat | None:
    wanted = mapping(body, "response_format")
    match wanted.get("type"):
        case "json_schema":
            schema = mapping(wanted, "json_schema").get("schema")
            if not isinstance(schema, dict):
                raise InvalidRequest(
                    "response_format.json_schema.schema must be an object.", param="response_format"
                )
            return ResponseFormat("json_schema", _dumped(schema))
        case "json_object":
            return ResponseFormat("json_schema", '{"type": "object"}')
    for place, kind in CONSTRAINTS.items():
        *outer, last = place.split(".")
        holder = body
        for name in outer:
            holder = mapping(holder, name)
        if source := text(holder, last):
            return ResponseFormat(kind, source)
    return None


def _tools_from_json(body: Json) -> Tools | None:
    tools, choice = body.get("tools"), body.get("tool_choice")
    if not tools:
        return None
    if not isinstance(tools, list):
        raise InvalidRequest("tools must be a list.", param="tools")
    return Tools(_dumped(tools), _dumped(choice) if choice is not None else "")


def _dumped(value: dict[str, Any] | Sequence[Any] | str) -> str:
    return json.dumps(value, ensure_ascii=True)
