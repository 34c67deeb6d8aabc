"""Answers and errors as JSON: what a server writes a client reads, and the forms of other servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cloud.wire import (
    Chunk,
    NotAsAgreed,
    Reply,
    chunk_from_json,
    chunk_to_json,
    completion_from_json,
    completion_to_json,
    error_from_json,
    error_to_json,
    loads,
    stream_status,
)
from router.errors import (
    BackendCrashed,
    CloudBusy,
    CloudError,
    CloudFault,
    CloudModelUnknown,
    CloudRefused,
    ContextOverflow,
    InvalidRequest,
    ModelUnavailable,
    RouterError,
    TooLarge,
)
from router.request import Delta, Simulated, ToolCall, Usage
from tests.router.cloud.wire_values import CHUNKS, JSON, PIECES, REASONS, USAGES, chunks

REPLY = Reply("chatcmpl-1", 1_700_000_000, "m")


def through(body: dict[str, Any]) -> Any:
    return loads(json.dumps(body))


@given(CHUNKS)
def test_a_chunk_that_is_written_is_read(chunk: Chunk) -> None:
    body = through(chunk_to_json(REPLY, chunk))
    assert (body["id"], body["created"], body["object"]) == (
        "chatcmpl-1",
        1_700_000_000,
        "chat.completion.chunk",
    )
    read = chunk_from_json(body)
    assert (read.pieces, read.finish_reason, read.usage) == (chunk.pieces, chunk.finish_reason, chunk.usage)
    assert read.simulated == chunk.simulated
    assert read.model == "m"


def test_the_first_chunk_has_the_role_and_the_last_only_usage() -> None:
    first = chunk_to_json(REPLY, Chunk(opens=True))
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunk_from_json(first).opens
    last = chunk_to_json(REPLY, Chunk(usage=Usage(5, 2, 3), simulated=Simulated("H200", 4, 7)))
    assert last["choices"] == []
    assert last["usage"]["total_tokens"] == 8
    assert last["usage"]["simulated"]["label"] == "SIMULATED"


@given(
    chunks(st.lists(PIECES, max_size=6).map(tuple)).filter(lambda whole: whole.finish_reason), USAGES, REASONS
)
def test_a_whole_answer_that_is_written_is_read(whole: Chunk, usage: Usage, reason: Any) -> None:
    read = completion_from_json(through(completion_to_json(REPLY, Chunk(whole.pieces, reason, usage))))
    assert (read.finish_reason, read.usage) == (reason, usage)
    for kind in ("text", "reasoning"):
        said = [
            "".join(p.text for p in c.pieces if isinstance(p, Delta) and p.kind == kind)
            for c in (whole, read)
        ]
        assert said[0] == said[1]
    calls = [{p.index for p in c.pieces if isinstance(p, ToolCall)} for c in (whole, read)]
    assert len(calls[0]) == len(calls[1])


@given(
    st.dictionaries(
        st.sampled_from(["choices", "usage", "model", "error", "id"]),
        JSON
        | st.lists(st.dictionaries(st.sampled_from(["delta", "finish_reason", "index", "message"]), JSON)),
    )
)
def test_nonsense_is_read_or_refused_but_never_crashes(body: dict[str, Any]) -> None:
    for read in (chunk_from_json, completion_from_json):
        try:
            read(body)
        except NotAsAgreed:
            continue


@pytest.mark.parametrize(
    ("delta", "pieces"),
    [
        ({"content": None, "reasoning_content": "why"}, (Delta("why", "reasoning"),)),
        ({"content": "so", "reasoning": "why"}, (Delta("why", "reasoning"), Delta("so"))),
        ({"content": "\ud800x"}, (Delta("\ufffdx"),)),
        ({"refusal": "No."}, (Delta("No."),)),
        ({"content": 7}, ()),
        (
            {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{"}}]},
            (ToolCall(0, "c", "f", "{"),),
        ),
        ({"tool_calls": [7, None]}, ()),
        ({"tool_calls": "all"}, ()),
    ],
)
def test_forms_that_servers_send(delta: dict[str, Any], pieces: tuple[object, ...]) -> None:
    assert chunk_from_json({"choices": [{"delta": delta, "finish_reason": None}]}).pieces == pieces


def test_other_choices_are_not_mixed_in() -> None:
    body = {"choices": [{"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}}]}
    assert chunk_from_json(body).pieces == (Delta("a"),)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        ({}, None),
        ({"prompt_tokens": 5}, None),
        ({"prompt_tokens": -5, "completion_tokens": 1}, None),
        ({"prompt_tokens": "5", "completion_tokens": 1}, None),
        ({"prompt_tokens": True, "completion_tokens": 1}, None),
        ({"prompt_tokens": 10**20, "completion_tokens": 1}, None),
        ({"prompt_tokens": 5, "completion_tokens": 1}, Usage(5, 0, 1)),
        ({"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": None}, Usage(5, 0, 1)),
        (
            {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 9}},
            Usage(5, 5, 1),
        ),
        ({"prompt_tokens": 5, "completion_tokens": 1, "prompt_cache_hit_tokens": 3}, Usage(5, 3, 1)),
    ],
)
def test_usage_that_makes_no_sense_is_none(usage: object, expected: Usage | None) -> None:
    assert chunk_from_json({"choices": [], "usage": usage}).usage == expected


@pytest.mark.parametrize(
    ("word", "reason"),
    [("eos_token", "stop"), ("max_tokens", "length"), ("whim", "unknown"), ("", None), (7, None)],
)
def test_finish_reasons_of_others(word: object, reason: str | None) -> None:
    assert chunk_from_json({"choices": [{"delta": {}, "finish_reason": word}]}).finish_reason == reason


def test_a_finish_reason_of_error_is_not_an_end() -> None:
    with pytest.raises(NotAsAgreed):
        chunk_from_json({"choices": [{"delta": {}, "finish_reason": "error"}]})


# -- errors


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (ContextOverflow(9000, 8192, 100), 400, "context_length_exceeded"),
        (InvalidRequest("No.", param="stop"), 400, "invalid_value"),
        (TooLarge("Too much."), 413, "request_too_large"),
        (CloudRefused("Who?"), 401, "invalid_api_key"),
        (CloudRefused("You?", status=403), 403, "forbidden"),
        (CloudModelUnknown("What?"), 404, "model_not_found"),
        (CloudBusy("Later.", retry_after_s=7), 429, "rate_limit_exceeded"),
        (CloudBusy("Pay.", may_pass=False), 429, "insufficient_quota"),
        (CloudFault("Oh.", status=503), 503, "server_error"),
        (ModelUnavailable("Gone."), 503, "model_unavailable"),
        (BackendCrashed("Dead."), 500, "server_error"),
    ],
)
def test_an_error_that_is_written_is_read(error: RouterError, status: int, code: str) -> None:
    answer = error_to_json(error)
    detail = answer.body["error"]
    assert (answer.status, detail["code"]) == (status, code)
    assert set(detail) >= {"message", "type", "param", "code"}
    assert answer.headers == ({"retry-after": "7"} if code == "rate_limit_exceeded" else {})
    read = error_from_json(status, through(answer.body), 7.0)
    expected = CloudFault if isinstance(error, ModelUnavailable | BackendCrashed) else type(error)
    assert type(read) is expected
    assert getattr(read, "may_pass", None) == getattr(error, "may_pass", getattr(read, "may_pass", None))
    if isinstance(read, ContextOverflow):
        assert (read.prompt_tokens, read.window_tokens, read.reserved_tokens) == (9000, 8192, 100)
    if isinstance(error, InvalidRequest) and type(error) is InvalidRequest:
        assert isinstance(read, InvalidRequest)
        assert read.param == "stop"


LIMIT = "This model's maximum context length is 4096 tokens"
OVERFLOWS = [
    (
        f"{LIMIT}. However, you requested 5000 tokens (4900 in the messages, 100 in the completion).",
        4900,
        100,
    ),
    (f"{LIMIT}. However, your messages resulted in 9000 tokens.", 9000, 0),
    (
        "'max_tokens' or 'max_completion_tokens' is too large: 5000. "
        f"{LIMIT} and your request has 10 input tokens (5000 > 4096 - 10).",
        10,
        5000,
    ),
    ("The input (61709 tokens) is longer than the model's context length (4096 tokens).", 61709, 0),
    (
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You requested a"
        " total of 9000 tokens: 8000 tokens from the input messages and 1000 tokens for the completion.",
        8000,
        1000,
    ),
    ("request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it", 4390, 0),
    (
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096."
        " Given: 5000 `inputs` tokens and 100 `max_new_tokens`",
        5000,
        100,
    ),
]
"""What providers say of a window of 4096, and the counts in it."""


@pytest.mark.parametrize(("words", "prompt", "reserved"), OVERFLOWS)
@pytest.mark.parametrize("form", ["error object", "error text", "flat"])
def test_token_counts_are_found_where_providers_put_them(
    words: str, prompt: int, reserved: int, form: str
) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "error object": {"error": {"message": words, "type": "BadRequestError", "code": 400}},
        "error text": {"error": words, "error_type": "validation"},
        "flat": {"object": "error", "message": words, "code": 400},
    }
    error = error_from_json(422 if form == "error text" else 400, bodies[form])
    assert isinstance(error, ContextOverflow)
    assert (error.prompt_tokens, error.window_tokens, error.reserved_tokens) == (prompt, 4096, reserved)
    assert "--ctx" not in str(error)


def test_token_counts_in_fields_of_their_own() -> None:
    detail = {"code": 500, "type": "exceed_context_size_error", "n_prompt_tokens": 1407, "n_ctx": 256}
    error = error_from_json(500, {"error": detail})
    assert isinstance(error, ContextOverflow)
    assert (error.prompt_tokens, error.window_tokens) == (1407, 256)


def test_an_overflow_without_counts_is_too_large() -> None:
    error = error_from_json(500, {"error": {"message": "Context size has been exceeded."}})
    assert isinstance(error, TooLarge)
    assert "Drop or summarise" in str(error)


@pytest.mark.parametrize(
    ("status", "body", "kind", "may_pass"),
    [
        (400, {"error": {"message": "temperature is wrong"}}, InvalidRequest, None),
        (402, {"error": {"message": "Insufficient credits"}}, CloudBusy, False),
        (404, {"error": {"message": "model 'x' not found"}}, CloudModelUnknown, False),
        (408, {}, CloudFault, True),
        (409, {}, CloudError, False),
        (429, {"error": {"code": "insufficient_quota", "message": "check your plan"}}, CloudBusy, False),
        (429, {"error": "busy"}, CloudBusy, True),
        (500, {"detail": "Internal"}, CloudFault, True),
        (529, {"detail": [1]}, CloudFault, True),
    ],
)
def test_every_status_has_its_error(
    status: int, body: dict[str, Any], kind: type[RouterError], may_pass: bool | None
) -> None:
    error = error_from_json(status, body, 3.0)
    assert type(error) is kind
    assert getattr(error, "may_pass", None) == may_pass
    assert error.next_step
    assert str(status) in error.message


@given(st.integers(400, 599), JSON | st.dictionaries(st.sampled_from(["error", "detail", "message"]), JSON))
def test_any_error_body_is_read(status: int, body: Any) -> None:
    assert str(error_from_json(status, body if isinstance(body, dict) else {}))


def test_an_error_in_a_stream_stands_for_a_status() -> None:
    codes: list[object] = [429, "503", "rate_limited", None, 200, True]
    assert [stream_status({"error": {"code": code}}) for code in codes] == [429, 503, 500, 500, 500, 500]
