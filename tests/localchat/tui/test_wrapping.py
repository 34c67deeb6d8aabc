from hypothesis import given
from hypothesis import strategies as st
from rich.cells import get_character_cell_size

from localchat.tui.wrapping import WrappedText, wrap

TEXT = st.text(alphabet=st.sampled_from("ab \n-語😀é\t"), max_size=120)
WIDTH = st.integers(2, 30)


def rows(width: int, *pieces: str) -> list[str]:
    wrapped = WrappedText(width)
    for piece in pieces:
        wrapped.append(piece)
    return wrapped.rows


@given(WIDTH, st.lists(TEXT, max_size=6))
def test_appending_in_pieces_gives_the_rows_of_the_whole(width: int, pieces: list[str]) -> None:
    assert rows(width, *pieces) == rows(width, "".join(pieces))


@given(WIDTH, TEXT)
def test_no_row_is_wider_than_the_width(width: int, text: str) -> None:
    for row in rows(width, text):
        assert sum(map(get_character_cell_size, row)) <= width


@given(WIDTH, TEXT)
def test_nothing_but_new_lines_is_lost(width: int, text: str) -> None:
    assert "".join(wrap(text, width)) == text.replace("\n", "")


@given(WIDTH, TEXT, TEXT)
def test_only_rows_from_the_one_named_change(width: int, text: str, more: str) -> None:
    wrapped = WrappedText(width)
    wrapped.append(text)
    before = list(wrapped.rows)
    first = wrapped.append(more)
    assert wrapped.rows[:first] == before[:first]


def test_words_stay_whole_where_they_fit() -> None:
    assert rows(8, "one two three") == ["one two", "three"]


def test_a_word_too_long_is_cut_without_parting_wide_characters() -> None:
    assert rows(5, "語語語") == ["語語", "語"]
