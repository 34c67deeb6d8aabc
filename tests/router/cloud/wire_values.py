"""Requests and answers to try the wire with."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from router.cloud.wire import Chunk, Dialect
from router.request import (
    ChatRequest,
    Delta,
    FinishReason,
    Message,
    ResponseFormat,
    Role,
    Sampling,
    Simulated,
    ToolCall,
    Tools,
    Usage,
)

FULL = Dialect(
    sampling={"top_k": "top_k", "min_p": "min_p", "repetition_penalty": "repeat_penalty"},
    constraints={"regex": "structured_outputs.regex", "gbnf": "grammar"},
    continuing={"continue_final_message": True},
)
"""Says everything a request can hold."""

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
WORD = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT, lambda inner: st.lists(inner, max_size=2)
)
OBJECT = st.dictionaries(WORD, JSON, max_size=3)
ROLES: st.SearchStrategy[Role] = st.sampled_from(["system", "user", "assistant", "tool"])
REASONS: st.SearchStrategy[FinishReason] = st.sampled_from(["stop", "length", "tool_calls", "filtered"])
CALLS = st.lists(OBJECT, min_size=1, max_size=2).map(json.dumps)

MESSAGES = st.builds(Message, ROLES, TEXT, st.just("") | CALLS, st.just("") | WORD)
SAMPLING = st.builds(
    Sampling,
    temperature=st.floats(0, 5),
    top_p=st.floats(0, 1),
    top_k=st.integers(0, 500),
    min_p=st.floats(0, 1),
    repeat_penalty=st.floats(0.1, 10),
    frequency_penalty=st.floats(-2, 2),
    presence_penalty=st.floats(-2, 2),
    seed=st.none() | st.integers(0, 2**32),
    max_tokens=st.none() | st.integers(1, 10_000),
    stop=st.lists(WORD, max_size=2).map(tuple),
)
FORMATS = st.builds(ResponseFormat, st.just("json_schema"), OBJECT.map(json.dumps)) | st.builds(
    ResponseFormat, st.sampled_from(["regex", "gbnf"]), WORD
)
TOOLS = st.builds(Tools, CALLS, st.just("") | OBJECT.map(json.dumps) | st.just('"auto"'))
REQUESTS = st.builds(
    ChatRequest,
    st.lists(MESSAGES, min_size=1, max_size=4).map(tuple),
    SAMPLING,
    st.none() | FORMATS,
    st.none() | TOOLS,
)

COUNT = st.integers(0, 10**6)
USAGES = st.builds(lambda cached, more, done: Usage(cached + more, cached, done), COUNT, COUNT, COUNT)
SIMULATED = st.builds(Simulated, WORD, COUNT, COUNT, st.floats(0, 1000), WORD, COUNT)
PIECES = (
    st.builds(Delta, TEXT.filter(bool), st.just("text"))
    | st.builds(Delta, TEXT.filter(bool), st.just("reasoning"))
    | st.builds(ToolCall, st.integers(0, 9), WORD, WORD, TEXT)
)


def chunks(pieces: st.SearchStrategy[tuple[Delta | ToolCall, ...]]) -> st.SearchStrategy[Chunk]:
    def with_usage(chunk: Chunk, usage: Usage | None, simulated: Simulated | None) -> Chunk:
        return Chunk(chunk.pieces, chunk.finish_reason, usage, simulated if usage else None, "m")

    plain = st.builds(Chunk, pieces, st.none() | REASONS)
    return st.builds(with_usage, plain, st.none() | USAGES, st.none() | SIMULATED)


CHUNKS = chunks(st.just(()) | PIECES.map(lambda piece: (piece,)))
