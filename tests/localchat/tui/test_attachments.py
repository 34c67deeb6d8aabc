from pathlib import Path

import pytest

from localchat.tui.attachments import (
    MAX_BYTES,
    Attachment,
    AttachmentError,
    mention,
    mentioned_files,
    path_candidates,
    read_text_file,
    with_attachments,
)
from localchat.tui.streaming import code_blocks


def test_only_words_that_are_files_are_mentions(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b c.txt").write_text("b")
    text = f"see @a.txt, @missing and me@a.txt {mention('b c.txt')} (or @a.txt)"
    assert mentioned_files(text, tmp_path) == [tmp_path / "a.txt", tmp_path / "b c.txt"]


def test_a_text_file_goes_along_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("print('ü')\n", encoding="utf-8")
    assert read_text_file(tmp_path / "a.py") == Attachment("a.py", "print('ü')\n")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7fELF\0\0", "binary"),
        (b"\xff\xfe\xfa", "not UTF-8"),
        (b"x" * (MAX_BYTES + 1), "larger than 1 MB"),
    ],
)
def test_what_is_not_a_small_text_is_refused(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(AttachmentError, match=reason):
        read_text_file(tmp_path / "file")


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(AttachmentError, match="is not a file"):
            read_text_file(path)


def test_a_file_cannot_close_its_own_fence() -> None:
    text = with_attachments("Look", [Attachment("a.md", "```\nx\n```\n"), Attachment("b", "no newline")])
    assert text.startswith("Look\n\na.md\n````\n")
    assert [code for _, code in code_blocks(text)] == ["```\nx\n```", "no newline"]


def test_candidates_continue_the_name(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").touch()
    (tmp_path / "setup.py").touch()
    (tmp_path / ".hidden").touch()
    assert path_candidates("", tmp_path) == ["setup.py", "src/"]
    assert path_candidates("s", tmp_path) == ["setup.py", "src/"]
    assert path_candidates("src/m", tmp_path) == ["src/main.py"]
    assert path_candidates("nowhere/", tmp_path) == []
