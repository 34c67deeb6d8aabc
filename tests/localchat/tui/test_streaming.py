import itertools

from hypothesis import given
from hypothesis import strategies as st

from localchat.tui.streaming import BlockSplitter, code_blocks

LINES = st.sampled_from(
    [
        "text",
        "",
        "",
        "- item",
        "  more",
        "1. one",
        "```",
        "```py",
        "~~~",
        "# head",
        "> quote",
        "| a | b |",
        "    code",
        "  ```",
        "\t- deep",
        "---",
        "- [ ] task",
    ]
)
MARKDOWN = st.lists(LINES, max_size=30).map("\n".join)


def split(text: str, cuts: list[int]) -> tuple[list[str], str]:
    splitter = BlockSplitter()
    edges = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    blocks = [block for a, b in itertools.pairwise(edges) for block in splitter.feed(text[a:b])]
    return blocks, splitter.open


@given(MARKDOWN, st.lists(st.integers(0, 500)))
def test_any_chunking_gives_the_same_blocks(text: str, cuts: list[int]) -> None:
    assert split(text, cuts) == split(text, [])


@given(st.one_of(MARKDOWN, st.text()), st.lists(st.integers(0, 500)))
def test_blocks_joined_are_the_text(text: str, cuts: list[int]) -> None:
    blocks, rest = split(text, cuts)
    assert "".join(blocks) + rest == text


@given(MARKDOWN, MARKDOWN)
def test_a_finished_block_never_changes(text: str, more: str) -> None:
    before, _ = split(text, [])
    after, _ = split(text + more, [])
    assert after[: len(before)] == before


def test_a_paragraph_ends_at_a_blank_line() -> None:
    assert split("one\ntwo\n\nthree", []) == (["one\ntwo\n\n"], "three")


def test_a_fence_ends_where_it_closes_whatever_it_holds() -> None:
    fence = "```py\n# a\n\n- b\n~~~\n```\n"
    assert split(f"see:\n{fence}after", []) == (["see:\n", fence], "after")


def test_a_list_stays_open_over_blank_lines_until_something_else_begins() -> None:
    items = "- a\n\n- b\n\n  more\n\n"
    assert split(f"{items}- c\n", []) == ([], f"{items}- c\n")
    assert split(f"{items}end\n", []) == ([items], "end\n")


def test_a_fence_in_a_list_belongs_to_the_list() -> None:
    text = "1. a\n\n   ```\n   x\n\n   y\n   ```\n\n2. b\n"
    assert split(text, []) == ([], text)


def test_a_heading_is_a_block_of_its_own() -> None:
    assert split("intro\n# Head\nbody", []) == (["intro\n", "# Head\n"], "body")


def test_code_blocks_are_found_with_their_language() -> None:
    text = "a\n```python title\nx = 1\n\ny\n```\n1. b\n   ~~~\n   z\n   ~~~\n````\n```\n````\n```\nopen"
    assert code_blocks(text) == [("python title", "x = 1\n\ny"), ("", "z"), ("", "```"), ("", "open")]
