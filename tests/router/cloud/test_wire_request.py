"""Requests as JSON: what a client writes a server reads, what is unknown passes, what is wrong is named."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cloud.wire import Dialect, NotAsAgreed, call_from_json, loads, request_to_json, said
from router.cloud.wire.request import is_strict
from router.errors import InvalidRequest
from router.request import ChatRequest, Message, ResponseFormat, Sampling, Tools
from tests.router.cloud.wire_values import FULL, JSON, OBJECT, REQUESTS

HI = ChatRequest((Message("user", "hi"),))
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


@given(REQUESTS, OBJECT)
def test_what_is_written_is_read(request: ChatRequest, unknown: dict[str, Any]) -> None:
    body = {f"x_{name}": value for name, value in unknown.items()} | request_to_json(request, "m", FULL)
    call = call_from_json(loads(json.dumps(body)))
    assert (call.request, call.model, call.stream, call.include_usage) == (request, "m", True, True)


@given(st.dictionaries(st.sampled_from(["messages", "n", "stop", "tools", "seed", "top_k"]), JSON))
def test_odd_types_are_refused_or_read_but_never_crash(body: dict[str, Any]) -> None:
    body.setdefault("messages", [{"role": "user", "content": "hi"}])
    with suppress(InvalidRequest):
        call_from_json(body)


def test_only_what_the_provider_knows_is_sent() -> None:
    request = ChatRequest(HI.messages, Sampling(temperature=0.5, max_tokens=7, seed=3, stop=("x",)))
    body = request_to_json(
        request, "gpt-5-mini", Dialect("max_completion_tokens", fixed_sampling=("gpt-5*",))
    )
    assert body == {
        "model": "gpt-5-mini",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 7,
        "stop": ["x"],
        "seed": 3,
    }
    body = request_to_json(request, "gpt-4.1", Dialect(fixed_sampling=("gpt-5*",)))
    assert (body["max_tokens"], body["temperature"], "top_k" in body) == (7, 0.5, False)


@pytest.mark.parametrize("closed", [True, False])
def test_a_schema_is_strict_where_openai_takes_it_so(closed: bool) -> None:
    schema = {**SCHEMA, "additionalProperties": False} if closed else SCHEMA
    request = ChatRequest(HI.messages, response_format=ResponseFormat("json_schema", json.dumps(schema)))
    described = request_to_json(request, "m", Dialect())["response_format"]
    assert described["json_schema"].get("strict", False) is closed
    assert described["json_schema"]["schema"] == schema
    assert is_strict({"anyOf": [schema]}) is closed


def test_what_a_provider_cannot_do_is_told_before_anything_is_sent() -> None:
    with pytest.raises(InvalidRequest, match="lark"):
        request_to_json(ChatRequest(HI.messages, response_format=ResponseFormat("lark", "x")), "m", FULL)
    begun = ChatRequest((*HI.messages, Message("assistant", "It")))
    with pytest.raises(InvalidRequest, match="go on"):
        request_to_json(begun, "m", Dialect())
    assert request_to_json(begun, "m", FULL)["continue_final_message"] is True
    with pytest.raises(InvalidRequest, match="tools are not valid JSON"):
        request_to_json(ChatRequest(HI.messages, tools=Tools("[")), "m", FULL)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["hi"]}, "messages"),
        ({"messages": [{"role": "robot", "content": "hi"}]}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages"),
        ({"n": 2}, "n"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"stop": 7}, "stop"),
        ({"tools": "all"}, "tools"),
        ({"response_format": {"type": "json_schema"}}, "response_format"),
    ],
)
def test_a_wrong_field_is_named(body: dict[str, Any], param: str) -> None:
    whole = {"messages": [{"role": "user", "content": "hi"}], **body} if body else body
    with pytest.raises(InvalidRequest) as caught:
        call_from_json(whole)
    assert caught.value.param == param


def test_other_forms_that_clients_send() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    body = {
        "messages": [{"role": "developer", "content": parts}, {"role": "assistant", "content": None}],
        "max_tokens": 5,
        "max_completion_tokens": 9,
        "stop": "END",
        "top_k": -1,
        "response_format": {"type": "json_object"},
    }
    call = call_from_json(body)
    assert call.request.messages == (Message("system", "ab"), Message("assistant", ""))
    assert call.request.sampling == Sampling(max_tokens=9, stop=("END",), top_k=0)
    assert call.request.response_format == ResponseFormat("json_schema", '{"type": "object"}')
    assert not call.stream
    assert call_from_json({**body, "response_format": {"type": "text"}}).request.response_format is None


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 100_000, '{"a": ' + "9" * 5000 + "}", b"\xff"])
def test_what_is_not_an_object_is_not_as_agreed(text: str) -> None:
    with pytest.raises(NotAsAgreed):
        loads(text)


def test_words_of_a_server_are_plain_and_short() -> None:
    assert said("a\x1b[31m\n\tb\u202ec\ud800") == "a[31m bc\ufffd"
    assert said("x" * 1000) == "x" * 299 + "…"
    assert said(None) == said({}) == ""
