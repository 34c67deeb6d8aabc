"""Requests and events of every kind."""

from __future__ import annotations

from hypothesis import strategies as st

from router.request import (
    ChatRequest,
    Delta,
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

any_text = st.text(st.characters(), max_size=30)  # lone surrogates included
valid_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
numbers = st.floats(allow_nan=False)
counts = st.integers(0, 2**40)

samplings = st.builds(
    Sampling,
    *[st.floats(0, 5), st.floats(0, 1), st.integers(0, 2**31), st.floats(0, 1)],
    *[st.floats(0.1, 3), numbers, numbers],
    seed=st.none() | st.integers(0, 2**32 - 2),
    max_tokens=st.none() | st.integers(1, 2**40),
    stop=st.lists(valid_text, max_size=3).map(tuple),
)
formats = st.builds(ResponseFormat, st.sampled_from(["json_schema", "regex", "lark", "gbnf"]), valid_text)


def requests(texts: st.SearchStrategy[str]) -> st.SearchStrategy[ChatRequest]:
    roles = st.sampled_from(["system", "user", "assistant", "tool"])
    messages = st.lists(st.builds(Message, roles, texts), max_size=5).map(tuple)
    return st.builds(ChatRequest, messages, samplings, st.none() | formats)


rounded = st.floats(-1e9, 1e9).map(lambda value: round(value, 4)) | st.just(float("inf"))
scores = st.builds(TokenScore, rounded, rounded, rounded, st.booleans())
events = st.one_of(
    st.builds(Delta, valid_text, scores=st.lists(scores, max_size=4).map(tuple)),
    st.builds(
        Progress,
        st.sampled_from(["load", "measure", "prefill"]),
        numbers,
        numbers,
        st.sampled_from(["fraction", "tokens"]),
        st.none() | numbers,
        st.none() | numbers,
    ),
    st.builds(Notice, valid_text),
    st.builds(
        Finished,
        st.sampled_from(["stop", "length", "context", "cancelled"]),
        st.builds(Usage, counts, counts, counts),
        st.builds(Timings, numbers, numbers, numbers, numbers),
        valid_text,
    ),
)
