"""Bytes to text: however the bytes are cut, the same text, and never a stop string."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localchat.engines.text import TextStream

ALPHABET = "ab<é🙂"  # one, two and four bytes, and few enough to meet stop strings
texts = st.text(ALPHABET, max_size=24)
stops = st.lists(st.text(ALPHABET, max_size=4), max_size=3)
cuts = st.lists(st.integers(0, 100), max_size=12)


def pieces(data: bytes, places: list[int]) -> list[bytes]:
    bounds = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


def whole(chunks: list[bytes], stop: list[str]) -> tuple[str, bool]:
    stream = TextStream(stop)
    text = "".join(stream.feed(chunk) for chunk in chunks) + stream.end()
    return text, stream.stopped


def cut_at_stop(text: str, stop: list[str]) -> tuple[str, bool]:
    """Read character by character: the first stop string to be complete ends it."""
    wanted = [s for s in stop if s]
    for end in range(len(text) + 1):
        if met := [s for s in wanted if text[:end].endswith(s)]:
            return text[: end - max(map(len, met))], True
    return text, False


@given(st.binary(max_size=40), cuts)
def test_any_cutting_of_any_bytes_gives_the_same_text(data: bytes, places: list[int]) -> None:
    assert whole(pieces(data, places), []) == (data.decode("utf-8", "replace"), False)


@given(texts, stops, cuts)
@example("abc", ["abc", "b"], [])
@example("aab", ["ab"], [1, 2])
@example("ab", ["b", "ab"], [])
def test_any_cutting_stops_at_the_same_place(text: str, stop: list[str], places: list[int]) -> None:
    assert whole(pieces(text.encode(), places), stop) == cut_at_stop(text, stop)


@given(st.binary(max_size=40), stops, cuts)
def test_stop_strings_are_met_alike_among_invalid_bytes(
    data: bytes, stop: list[str], places: list[int]
) -> None:
    assert whole(pieces(data, places), stop) == cut_at_stop(data.decode("utf-8", "replace"), stop)


@given(texts, stops, cuts)
def test_no_stop_string_is_ever_shown(text: str, stop: list[str], places: list[int]) -> None:
    stream, shown = TextStream(stop), ""
    for chunk in pieces(text.encode(), places):
        shown += stream.feed(chunk)
        assert not any(s in shown for s in stop if s)
    assert not any(s in shown + stream.end() for s in stop if s)


@given(texts, stops)
def test_nothing_is_held_back_that_cannot_begin_a_stop_string(text: str, stop: list[str]) -> None:
    stream, shown, wanted = TextStream(stop), "", [s for s in stop if s]
    for end, character in enumerate(text, start=1):
        shown += stream.feed(character.encode())
        if stream.stopped:
            return
        held = text[len(shown) : end]
        assert not held or any(s.startswith(held) for s in wanted)


def test_an_overlapping_beginning_is_released_and_the_stop_found() -> None:
    stream = TextStream(["ab"])
    assert [stream.feed(b"a"), stream.feed(b"a"), stream.feed(b"b")] == ["", "a", ""]
    assert stream.stopped


def test_the_end_flushes_what_was_held_back() -> None:
    stream = TextStream(["</s>"])
    assert stream.feed(b"x </") == "x "
    assert stream.end() == "</"
    assert not stream.stopped


def test_a_character_cut_off_by_the_end_becomes_a_replacement_character() -> None:
    stream = TextStream(["stop"])
    assert stream.feed("é".encode()[:1]) == ""
    assert stream.end() == "\N{REPLACEMENT CHARACTER}"


def test_after_a_stop_string_everything_is_ignored() -> None:
    stream = TextStream(["."])
    assert stream.feed(b"one. two.") == "one"
    assert (stream.feed(b"three"), stream.end()) == ("", "")


@pytest.mark.parametrize("stop", [(), ("",)])
def test_without_stop_strings_a_whole_character_is_never_held_back(stop: tuple[str, ...]) -> None:
    stream = TextStream(stop)
    assert [stream.feed(bytes([b])) for b in "a🙂".encode()] == ["a", "", "", "", "🙂"]


def test_the_end_may_be_called_twice() -> None:
    stream = TextStream(["ab"])
    stream.feed(b"a")
    assert (stream.end(), stream.end()) == ("a", "")
