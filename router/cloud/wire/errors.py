"""Error objects, the statuses they go with, and the project's errors, both ways.

Owns which error a status and a code mean, and the token counts that providers put into
their messages. Does not decide what is tried again.

Format: https://platform.openai.com/docs/guides/error-codes
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from router.cloud.wire.fields import Json, count, mapping, said
from router.errors import (
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

NOTHING_TO_SPEND = {"insufficient_quota", "billing_hard_limit_reached"}  # OpenAI's codes; waiting is no help
OVERFLOW_CODES = {"context_length_exceeded", "exceed_context_size_error"}  # OpenAI; llama.cpp's server
OVERFLOW_WORDS = re.compile(
    r"maximum context length|context size|context length|context window|`inputs` tokens", re.IGNORECASE
)
OVERFLOW_COUNTS = tuple(
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        # OpenAI, vLLM, DeepSeek: "... is 4096 tokens. However, you requested 5000 tokens
        # (4900 in the messages, 100 in the completion)."
        r"context length is (?P<window>\d+) tokens.{0,80}?requested \d+ tokens"
        r" \((?P<prompt>\d+) in the messages, (?P<reserved>\d+) in the completion",
        # OpenAI: "... However, your messages resulted in 9000 tokens."
        r"context length is (?P<window>\d+) tokens.{0,80}?resulted in (?P<prompt>\d+) tokens",
        # vLLM, newer: "'max_tokens' ... is too large: 5000. ... is 4096 tokens and your request has
        # 10 input tokens (5000 > 4096 - 10)."
        r"too large: (?P<reserved>\d+).{0,80}?context length is (?P<window>\d+) tokens"
        r".{0,40}?has (?P<prompt>\d+) input tokens",
        # SGLang: "The input (61709 tokens) is longer than the model's context length (40960 tokens)."
        r"input \((?P<prompt>\d+) tokens\).{0,60}?context length \((?P<window>\d+) tokens\)",
        # SGLang: "... of 8192 tokens. You requested a total of 9000 tokens: 8000 tokens from the input
        # messages and 1000 tokens for the completion."
        r"context length of (?P<window>\d+) tokens.{0,80}?: (?P<prompt>\d+) tokens from the input"
        r".{0,20}?and (?P<reserved>\d+) tokens for the completion",
        # llama.cpp: "request (4390 tokens) exceeds the available context size (4096 tokens), ..."
        r"request \((?P<prompt>\d+) tokens\).{0,60}?context size \((?P<window>\d+) tokens\)",
        # TGI: "`inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 ..."
        r"must be <= (?P<window>\d+). Given: (?P<prompt>\d+) `inputs` tokens and (?P<reserved>\d+)",
    )
)


# -- in


def error_from_json(status: int, body: Json, retry_after_s: float | None = None) -> RouterError:
    """What a status of 400 or more, or an error in the middle of a stream, means."""
    detail = _detail(body)
    words = said(detail.get("message"))
    codes = {str(detail.get("code")), str(detail.get("type"))}
    quoted = f" It says: “{words}”" if words else ""
    if status in (400, 413, 422, 500) and (codes & OVERFLOW_CODES or OVERFLOW_WORDS.search(words)):
        return _overflow(detail, words)
    if status == 402 or (status == 429 and codes & NOTHING_TO_SPEND):
        step = "Add credit or raise the limit at the provider, or let the local model answer."
        return CloudBusy(f"Nothing is left to spend ({status}).{quoted}", step, status=status, may_pass=False)
    match status:
        case 400 | 422:
            return InvalidRequest(
                f"The cloud does not accept the request ({status}).{quoted}",
                "Change what it names, or choose another model.",
                param=said(detail.get("param"), 60),
            )
        case 401:
            return CloudRefused(
                f"The cloud does not accept the key (401).{quoted}",
                "`localchat doctor` shows where the key comes from; set the right one.",
                status=status,
            )
        case 403:
            return CloudRefused(
                f"The key may not do this (403).{quoted}", "Check its rights at the provider.", status=status
            )
        case 404:
            return CloudModelUnknown(
                f"The cloud does not have that model or address (404).{quoted}",
                "Check model and base_url in [cloud].",
                status=status,
            )
        case 413:
            return TooLarge(
                f"The request is too large for the cloud (413).{quoted}", "Shorten the conversation."
            )
        case 429:
            return CloudBusy(
                f"The cloud takes no more requests right now (429).{quoted}",
                "Wait, or let the local model answer.",
                status=status,
                retry_after_s=retry_after_s,
            )
    if status == 408 or status >= 500:
        return CloudFault(
            f"The cloud failed ({status}).{quoted}",
            "Try again later, or let the local model answer.",
            status=status,
            retry_after_s=retry_after_s,
        )
    return CloudError(f"The cloud answers {status}.{quoted}", "Check base_url in [cloud].", status=status)


def _detail(body: Json) -> Json:
    """The error object, in the forms that providers give it."""
    error = body.get("error")
    if isinstance(error, dict):
        return error
    if isinstance(error, str):  # Ollama, TGI
        return {"message": error, "type": body.get("error_type")}
    if isinstance(body.get("detail"), str):  # FastAPI
        return {"message": body["detail"]}
    return body  # older vLLM, SGLang: {"object": "error", "message": ...}


def _overflow(detail: Json, words: str) -> RouterError:
    prompt, window = count(detail, "n_prompt_tokens"), count(detail, "n_ctx")  # llama.cpp's server
    if prompt and window:
        return _counted(prompt, window, count(detail, "n_reserved_tokens") or 0)
    for pattern in OVERFLOW_COUNTS:
        if found := pattern.search(words):
            counts = {name: int(number[:12]) for name, number in found.groupdict().items() if number}
            return _counted(counts["prompt"], counts["window"], counts.get("reserved", 0))
    return TooLarge(
        f"The conversation does not fit the cloud's context window. It says: “{words}”",
        "Drop or summarise earlier turns, or choose a model with a larger window.",
    )


def _counted(prompt: int, window: int, reserved: int) -> ContextOverflow:
    return ContextOverflow(prompt, window, reserved, remedy="choose a model with a larger window")


def stream_status(body: Json) -> int:
    """The status an error in the middle of a stream stands for; 500 where it does not say."""
    code = mapping(body, "error").get("code")
    code = int(code) if isinstance(code, str) and code.isdecimal() and len(code) == 3 else code
    return code if type(code) is int and 400 <= code < 600 else 500


# -- out


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """What a server answers instead of a completion."""

    status: int
    body: dict[str, Any]
    headers: dict[str, str] = field(default_factory=dict)


def error_to_json(error: RouterError) -> ErrorAnswer:
    """An error as OpenAI would say it. The client reads the same error back."""
    match error:
        case ContextOverflow():
            return _overflow_to_json(error)
        case TooLarge():
            return _answer(413, error, "invalid_request_error", "request_too_large")
        case InvalidRequest():
            return _answer(400, error, "invalid_request_error", "invalid_value", error.param or None)
        case CloudRefused():
            code = "invalid_api_key" if error.status != 403 else "forbidden"
            return _answer(error.status or 401, error, "invalid_request_error", code)
        case CloudModelUnknown():
            return _answer(404, error, "invalid_request_error", "model_not_found", "model")
        case CloudBusy():
            code = "rate_limit_exceeded" if error.may_pass else "insufficient_quota"
            wait_s = error.retry_after_s
            headers = {} if wait_s is None else {"retry-after": f"{wait_s:g}"}
            return _answer(429, error, code, code, headers=headers)
        case ModelUnavailable():
            return _answer(503, error, "server_error", "model_unavailable")
        case CloudFault():
            return _answer(error.status or 500, error, "server_error", "server_error")
    return _answer(500, error, "server_error", "server_error")


def _overflow_to_json(error: ContextOverflow) -> ErrorAnswer:
    prompt, window, reserved = error.prompt_tokens, error.window_tokens, error.reserved_tokens
    message = (
        f"This model's maximum context length is {window} tokens. However, you requested {prompt + reserved}"
        f" tokens ({prompt} in the messages, {reserved} in the completion)."
    )
    counts = {"n_prompt_tokens": prompt, "n_ctx": window, "n_reserved_tokens": reserved}
    answer = _answer(400, error, "invalid_request_error", "context_length_exceeded", "messages")
    answer.body["error"] |= {"message": message, **counts}
    return answer


def _answer(
    status: int,
    error: RouterError,
    kind: str,
    code: str,
    param: str | None = None,
    headers: dict[str, str] | None = None,
) -> ErrorAnswer:
    detail = {"message": str(error), "type": kind, "param": param, "code": code}
    return ErrorAnswer(status, {"error": detail}, headers or {})
