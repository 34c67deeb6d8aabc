"""A request for a chat completion, written as JSON for one kind of provider.

Owns in which fields providers differ (:class:`Dialect`, filled in from presets.toml).
Does not know addresses or keys.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Literal

from router.cloud.wire.fields import clean
from router.errors import InvalidRequest
from router.request import ChatRequest, Message, ResponseFormat, Sampling


@dataclass(frozen=True, slots=True)
class Dialect:
    """What one kind of provider wants differently.

    ``sampling`` maps names on the wire to fields of Sampling that this provider knows
    beyond OpenAI's; ``constraints`` a kind of ResponseFormat to its dotted place.
    ``continuing`` are the fields that make it go on with a last message by the assistant,
    None where it cannot. ``fixed_sampling`` are patterns of models that refuse to be told.
    """

    token_limit: Literal["max_completion_tokens", "max_tokens"] = "max_tokens"
    sampling: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, str] = field(default_factory=dict)
    continuing: Mapping[str, Any] | None = None
    fixed_sampling: tuple[str, ...] = ()


def request_to_json(request: ChatRequest, model: str, dialect: Dialect) -> dict[str, Any]:
    """The body of a streamed request. Raises InvalidRequest for what this provider cannot do."""
    body: dict[str, Any] = {
        "model": model,
        "messages": [_message_to_json(message) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body |= _sampling_to_json(request.sampling, model, dialect)
    if request.response_format:
        _put_format(body, request.response_format, dialect)
    if request.tools:
        body["tools"] = _parsed(request.tools.definitions, "tools")
        if request.tools.choice:
            body["tool_choice"] = _parsed(request.tools.choice, "tool_choice")
    if request.messages and request.messages[-1].role == "assistant":
        body |= _continuing(dialect)
    return body


def _message_to_json(message: Message) -> dict[str, Any]:
    body: dict[str, Any] = {"role": message.role, "content": clean(message.content)}
    if message.tool_calls:
        body["tool_calls"] = _parsed(message.tool_calls, "tool_calls")
    if message.tool_call_id:
        body["tool_call_id"] = message.tool_call_id
    return body


def _sampling_to_json(sampling: Sampling, model: str, dialect: Dialect) -> dict[str, Any]:
    body: dict[str, Any] = {}
    if sampling.max_tokens is not None:
        body[dialect.token_limit] = sampling.max_tokens
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        body["seed"] = sampling.seed
    if any(fnmatchcase(model, pattern) for pattern in dialect.fixed_sampling):
        return body
    body |= {"temperature": sampling.temperature, "top_p": sampling.top_p}
    if sampling.frequency_penalty:
        body["frequency_penalty"] = sampling.frequency_penalty
    if sampling.presence_penalty:
        body["presence_penalty"] = sampling.presence_penalty
    return body | {name: getattr(sampling, item) for name, item in dialect.sampling.items()}


def _put_format(body: dict[str, Any], wanted: ResponseFormat, dialect: Dialect) -> None:
    if wanted.kind == "json_schema":
        schema = _parsed(wanted.source, "schema")
        described: dict[str, Any] = {"name": "answer", "schema": schema}
        if is_strict(schema):
            described["strict"] = True
        body["response_format"] = {"type": "json_schema", "json_schema": described}
        return
    place = dialect.constraints.get(wanted.kind)
    if place is None:
        raise InvalidRequest(
            f"This cloud cannot bind an answer to a {wanted.kind} constraint.",
            "Use a JSON schema, or let the local model answer.",
        )
    *outer, last = place.split(".")
    for name in outer:
        body = body.setdefault(name, {})
    body[last] = wanted.source


def is_strict(schema: object) -> bool:
    """Whether OpenAI accepts this schema with ``strict``: every object closed, every property required.

    https://platform.openai.com/docs/guides/structured-outputs#supported-schemas
    """
    if isinstance(schema, list):
        return all(is_strict(item) for item in schema)
    if not isinstance(schema, dict):
        return True
    if "properties" in schema or schema.get("type") == "object":
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False
        if not closed or set(schema.get("required", ())) != set(properties):
            return False
    return all(is_strict(part) for part in schema.values())


def _continuing(dialect: Dialect) -> Mapping[str, Any]:
    if dialect.continuing is None:
        raise InvalidRequest(
            "This cloud cannot go on with an answer that was begun.",
            "Ask again, or let the local model answer.",
        )
    return dialect.continuing


def _parsed(source: str, what: str) -> Any:
    try:
        return json.loads(source)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"The {what} are not valid JSON.", "Correct them.") from error
