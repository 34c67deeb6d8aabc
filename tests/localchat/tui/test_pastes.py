from hypothesis import given
from hypothesis import strategies as st

from localchat.tui.pastes import LARGE_CHARS, LARGE_LINES, Pastes, size_text

LARGE = st.integers(LARGE_LINES + 1, 60).flatmap(lambda n: st.text(max_size=8).map(lambda t: f"{t}\n" * n))


def test_small_pastes_are_text() -> None:
    pastes = Pastes()
    assert pastes.collapse("a\n" * (LARGE_LINES - 1)) == "a\n" * (LARGE_LINES - 1)
    assert pastes.collapse("x" * LARGE_CHARS) == "x" * LARGE_CHARS


def test_a_large_paste_is_a_token_that_says_its_size() -> None:
    assert Pastes().collapse("abc\n" * 119 + "abc") == "[pasted 120 lines, 479 B]"
    assert Pastes().collapse("x" * 4_100) == "[pasted 1 line, 4.1 kB]"


@given(st.lists(LARGE, max_size=4))
def test_expanding_gives_back_what_was_pasted(texts: list[str]) -> None:
    pastes = Pastes()
    written = " and ".join(map(pastes.collapse, texts))
    assert pastes.expand(written) == " and ".join(texts)


@given(st.lists(LARGE, max_size=4), st.text(max_size=20))
def test_a_draft_survives_the_program(texts: list[str], typed: str) -> None:
    pastes = Pastes()
    written = typed.replace("\x02", "") + " ".join(map(pastes.collapse, texts))
    again = Pastes()
    assert again.expand(again.unpack(pastes.pack(written))) == pastes.expand(written)


def test_equal_tokens_of_different_pastes_stay_apart() -> None:
    pastes = Pastes()
    first, second = pastes.collapse("a\n" * 30), pastes.collapse("b\n" * 30)
    assert first != second
    assert pastes.expand(second + first) == "b\n" * 30 + "a\n" * 30


def test_sizes_read_well() -> None:
    assert [size_text(n) for n in (0, 999, 1000, 98_300_000, 2.5e9)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "98.3 MB",
        "2.5 GB",
    ]
