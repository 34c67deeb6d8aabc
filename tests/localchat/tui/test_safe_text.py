import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from localchat.tui.safe_text import displayable, one_line

TEXT = st.text(alphabet=st.characters())  # surrogates and controls included


@given(TEXT)
def test_nothing_a_terminal_would_obey_is_left(text: str) -> None:
    for character in displayable(text):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cs")
        assert unicodedata.bidirectional(character) not in (
            "LRE",
            "RLE",
            "LRO",
            "RLO",
            "PDF",
            "LRI",
            "RLI",
            "FSI",
        )


@given(TEXT)
def test_it_can_be_written_to_a_terminal(text: str) -> None:
    displayable(text).encode("utf-8")


@given(TEXT)
def test_doing_it_twice_changes_nothing(text: str) -> None:
    assert displayable(displayable(text)) == displayable(text)


def test_scripts_and_emoji_stay_as_they_are() -> None:
    text = "漢字 שלום مرحبا e\u0301 \N{FAMILY} 👩\u200d💻 [bold]not markup[/bold]\n\ttab"
    assert displayable(text) == text


def test_escape_sequences_are_shown() -> None:
    assert displayable("\x1b[31mred\x07\x9b2J\u202egnp.exe") == "␛[31mred␇�2J�gnp.exe"


@given(TEXT, st.integers(1, 50))
def test_one_line_is_one_line_of_the_width(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= width
    assert "\n" not in line
    assert "\t" not in line
