"""Reasoning is told from the answer however the text is cut, and nothing is lost on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BackendCrashed
from router.reasoning import CLOSE, OPEN, ReasoningSplitter, overlap, separate_reasoning
from router.request import Delta, Event, Finished, Notice, Progress, Reclassified, TokenScore

PIECES = [OPEN, CLOSE, "<", "</", "<thi", "nk>", "</think", ">", " ", "\n", "a", "é", "think", "b c"]
texts = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@st.composite
def cut_texts(draw: st.DrawFn) -> list[str]:
    """A text in pieces, some of them empty."""
    text = draw(texts)
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=10)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def split(pieces: Iterable[str]) -> tuple[str, str, int]:
    """Reasoning, text, and how many times what was shown turned out to be reasoning."""
    splitter, reasoning, text, turned = ReasoningSplitter(), "", "", 0
    told = [piece for text_piece in pieces for piece in splitter.feed(text_piece)]
    for piece in [*told, *splitter.end()]:
        match piece:
            case Reclassified():
                reasoning, text, turned = reasoning + text, "", turned + 1
            case (said, "text"):
                text += said
            case (said, _):
                reasoning += said
    return reasoning, text, turned


@given(cut_texts())
def test_any_cutting_gives_the_same_result(pieces: list[str]) -> None:
    assert split(pieces) == split(["".join(pieces)]) == split("".join(pieces))


@given(texts)
def test_only_marks_and_the_white_space_around_them_are_taken_out(text: str) -> None:
    reasoning, answer, turned = split(text)
    opened = text.lstrip().startswith(OPEN)
    left = text.lstrip().removeprefix(OPEN) if opened else text
    if CLOSE in left:
        assert [reasoning, answer] == [left.partition(CLOSE)[0], left.partition(CLOSE)[2].lstrip()]
    else:
        assert (reasoning + answer, bool(reasoning)) == (left, opened and bool(left))
    assert turned == (not opened and CLOSE in left)


@given(texts)
def test_the_marks_that_count_are_never_shown_not_even_in_part(text: str) -> None:
    splitter, shown = ReasoningSplitter(), ""
    for character in text:
        for piece in splitter.feed(character):
            if isinstance(piece, Reclassified):
                assert CLOSE not in shown
                return
            shown += piece[0]
        before = text.lstrip().removeprefix(OPEN) if text.lstrip().startswith(OPEN) else text
        if CLOSE in before and len(shown) <= len(before.partition(CLOSE)[0]):
            assert before.startswith(shown)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("<think>why</think>\n\nbecause", "why", "because"),
        (" \n<think>\nwhy\n</think>because", "\nwhy\n", "because"),
        ("why</think>because", "why", "because"),
        ("</think>because", "", "because"),
        ("<think>why", "why", ""),
        ("a < b and <think> later", "", "a < b and <think> later"),
        ("<think>a</think>b</think>c<think>d", "a", "b</think>c<think>d"),
        ("<thin", "", "<thin"),
        ("  indented", "", "  indented"),
        ("", "", ""),
    ],
)
def test_what_models_write(text: str, reasoning: str, answer: str) -> None:
    assert split(text)[:2] == (reasoning, answer)


def test_text_that_cannot_be_a_mark_is_shown_at_once() -> None:
    splitter = ReasoningSplitter()
    assert list(splitter.feed("Hello")) == [("Hello", "text")]
    assert list(splitter.feed(" a <")) == [(" a ", "text")]
    assert list(splitter.feed("b")) == [("<b", "text")]


@given(st.text("<>/think", max_size=12))
def test_overlap_is_the_longest_end_that_begins_the_mark(text: str) -> None:
    fitting = [size for size in range(len(CLOSE)) if text.endswith(CLOSE[:size])]
    assert overlap(text, CLOSE) == max(size for size in fitting if size <= len(text))


# -- in a stream of events


def score(number: int) -> TokenScore:
    return TokenScore(-float(number), 0.0, 0.0)


async def read(events: AsyncGenerator[Event, None]) -> list[Event]:
    """What came before the end, or before the crash."""
    seen: list[Event] = []
    with suppress(BackendCrashed):
        async for event in events:
            seen += [event]
    return seen


async def play(events: Sequence[Event | Exception]) -> AsyncGenerator[Event, None]:
    for event in events:
        if isinstance(event, Exception):
            raise event
        yield event


@given(cut_texts(), st.sampled_from([BackendCrashed("gone"), Finished("stop")]))
async def test_every_score_comes_through_once_and_in_order(pieces: list[str], end: Event | Exception) -> None:
    tokens = [Delta(text, scores=(score(n),)) for n, text in enumerate(pieces)]
    seen = await read(separate_reasoning(play([*tokens, end])))
    scores = [s for event in seen if isinstance(event, Delta) for s in event.scores]
    assert scores == [score(n) for n in range(len(pieces))]
    assert (seen[-1:] == [end]) == isinstance(end, Finished)


@given(cut_texts())
async def test_text_held_back_is_sent_before_an_end_of_either_kind(pieces: list[str]) -> None:
    deltas: list[Event | Exception] = [Delta(piece) for piece in pieces]
    end, crash = Finished("stop"), BackendCrashed("gone")
    *finished, _ = await read(separate_reasoning(play([*deltas, end])))
    failed = await read(separate_reasoning(play([*deltas, crash])))
    assert finished == failed
    assert "".join(event.text for event in failed if isinstance(event, Delta)) == "".join(split(pieces)[:2])


async def test_an_error_goes_on_to_the_reader() -> None:
    with pytest.raises(BackendCrashed):
        await anext(separate_reasoning(play([BackendCrashed("gone")])))


async def test_other_events_pass_in_their_places() -> None:
    progress = Progress("prefill", 1, 2, "tokens")
    events: list[Event] = [progress, Delta("a"), Notice("n"), Delta("b"), Finished("stop")]
    assert await read(separate_reasoning(play(events))) == events


async def test_reasoning_told_by_the_backend_is_taken_as_it_is() -> None:
    events: list[Event] = [Delta("</think>", "reasoning"), Delta("a"), Finished("stop")]
    assert await read(separate_reasoning(play(events))) == events


async def test_closing_it_closes_its_source() -> None:
    closed = False

    async def endless() -> AsyncGenerator[Event, None]:
        nonlocal closed
        try:
            while True:
                yield Delta("a")
        finally:
            closed = True

    events = separate_reasoning(endless())
    assert await anext(events) == Delta("a")
    await events.aclose()
    assert closed
