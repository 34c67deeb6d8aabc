"""Server-sent events: any chunking decodes alike, what is encoded comes back, nothing grows without bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cloud.sse import Decoder, OversizedEvent, ServerSentEvent, encode, encode_comment, encode_data

FIELDS = [b"data: ", b"data:", b"data", b"event: e", b"id: 7", b"retry: 5", b"retry: x", b":", b": comment"]
ENDS = [b"\r", b"\n", b"\r\n", b"\n\n", b"\r\r"]
VALUES = [b"{}", b" ", "€".encode(), b"\xe2\x82", b"\xf0\x9f", b"\xff", b"\xef\xbb\xbf"]
PIECES = st.sampled_from([*FIELDS, *ENDS, *VALUES])
TEXT = st.text(st.characters(exclude_characters="\0\r\n", exclude_categories=["Cs"]), max_size=20)
EVENTS = st.builds(
    ServerSentEvent,
    st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"]), max_size=40),
    TEXT.map(lambda name: name or "message"),
    st.just(""),
    st.none() | st.integers(0, 99_999),
)


def decoded(chunks: Iterable[bytes]) -> list[ServerSentEvent]:
    decoder = Decoder()
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return events + list(decoder.end())


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:stop] for start, stop in pairwise(edges)]


@given(st.lists(PIECES, max_size=30).map(b"".join), st.lists(st.integers(0, 1000), max_size=12))
def test_any_chunking_decodes_alike(data: bytes, places: list[int]) -> None:
    whole = decoded([data])
    assert decoded(cut(data, places)) == whole
    assert decoded(bytes([byte]) for byte in data) == whole


@given(st.lists(EVENTS, max_size=5), st.lists(st.integers(0, 1000), max_size=5))
def test_what_is_encoded_is_decoded(events: list[ServerSentEvent], places: list[int]) -> None:
    data = b"".join(encode(event) + encode_comment("alive") for event in events)
    assert decoded(cut(data, places)) == events


@given(st.text(st.characters(exclude_characters="\r", exclude_categories=["Cs"])))
def test_data_alone_is_encoded_the_same(data: str) -> None:
    assert decoded([encode_data(data)]) == [ServerSentEvent(data)]
    assert encode_data(data) == encode(ServerSentEvent(data))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"data: a\ndata: b\n\n", [ServerSentEvent("a\nb")]),
        (b"data:  a\n\n", [ServerSentEvent(" a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [ServerSentEvent("a")]),
        (b"data\n\n", [ServerSentEvent("")]),
        (b"event: e\n\n", []),
        (b"id: 1\ndata: a\n\ndata: b\n\n", [ServerSentEvent("a", id="1"), ServerSentEvent("b", id="1")]),
        (b"id: 1\0\ndata: a\n\n", [ServerSentEvent("a")]),
        (b"retry: 10\ndata: a\n\n", [ServerSentEvent("a", retry_ms=10)]),
        (b": OPENROUTER PROCESSING\n\n", []),
        (b"datas: a\nwhatever\n\n", []),
        (b"data: [DONE]", []),  # a line cut in two
        (b"data: [DONE]\n", [ServerSentEvent("[DONE]")]),  # only the blank line is missing
        (b"data: \xff\xe2\x82\n\n", [ServerSentEvent("\ufffd\ufffd")]),
    ],
)
def test_the_format(data: bytes, expected: list[ServerSentEvent]) -> None:
    assert decoded([data]) == expected


def test_the_closing_word_is_known() -> None:
    assert [event.is_done for event in decoded([b"data: [DONE]\n\ndata: {}\n\n"])] == [True, False]


@pytest.mark.parametrize("chunk", [b"data: " + b"x" * 90, b"x" * 10, b"y" * 5 + b"\n"])
def test_a_line_is_bounded_before_it_ends(chunk: bytes) -> None:
    decoder = Decoder(max_line_bytes=64)
    with pytest.raises(OversizedEvent, match="a line of more than 64 bytes"):
        for _ in range(100):
            assert list(decoder.feed(chunk.strip(b"\n"))) == []


def test_an_event_is_bounded_over_its_lines() -> None:
    decoder = Decoder(max_event_bytes=64)
    with pytest.raises(OversizedEvent, match="an event of more than 64 bytes"):
        for _ in range(100):
            assert list(decoder.feed(b"data: line\n")) == []


def test_a_name_of_two_lines_is_refused() -> None:
    with pytest.raises(ValueError, match="one line"):
        encode(ServerSentEvent("data", event="a\nb"))
