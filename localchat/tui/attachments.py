"""Text files named with ``@path`` in a message.

Owns which words name a file, which files may go along, and how they are put
into the message. Knows no widgets.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from localchat.errors import LocalchatError

MAX_BYTES = 1_000_000
MOST_CANDIDATES = 200
_MENTION = re.compile(r'(?:^|(?<=\s))@(?:"([^"\n]+)"|([^\s"]+))')
_TRAILING = ".,;:!?)"


class AttachmentError(LocalchatError):
    """A file cannot go along with a message."""


@dataclass(frozen=True, slots=True)
class Attachment:
    name: str
    text: str


def mention(path: str) -> str:
    """How ``path`` is written in a message."""
    return f'@"{path}"' if any(c.isspace() for c in path) else f"@{path}"


def mentioned_files(text: str, folder: Path) -> list[Path]:
    """The files that ``text`` names, in order, each once. A word that is no file is a word."""
    found: dict[Path, None] = {}
    for match in _MENTION.finditer(text):
        for name in filter(None, (match[1], match[2], (match[2] or "").rstrip(_TRAILING))):
            path = folder / Path(name).expanduser()
            if os.path.isfile(path):
                found[path] = None
                break
    return list(found)


def read_text_file(path: Path) -> Attachment:
    """Raises AttachmentError for what is missing, too large, or not text."""
    try:
        if not path.is_file():
            raise AttachmentError(f"{path.name} is not a file.", "Name an existing text file.")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise AttachmentError(f"{path.name} cannot be read: {error.strerror}.") from error
    if len(data) > MAX_BYTES:
        raise AttachmentError(f"{path.name} is larger than 1 MB.", "Attach a part of it.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise AttachmentError(f"{path.name} is not UTF-8 text.", "Only text can be attached.") from error
    if "\0" in text:
        raise AttachmentError(f"{path.name} is a binary file.", "Only text can be attached.")
    return Attachment(path.name, text)


def with_attachments(text: str, attachments: list[Attachment]) -> str:
    """``text`` followed by each file as a fenced block that its content cannot close."""
    return "\n\n".join([text, *map(_fenced, attachments)])


def _fenced(attachment: Attachment) -> str:
    longest = max((len(run) for run in re.findall("`+", attachment.text)), default=0)
    fence = "`" * max(3, longest + 1)
    ending = "" if attachment.text.endswith("\n") else "\n"
    return f"{attachment.name}\n{fence}\n{attachment.text}{ending}{fence}"


def path_candidates(prefix: str, folder: Path) -> list[str]:
    """What ``prefix`` may become: names in its folder, folders with a slash."""
    parent, name = os.path.split(prefix)
    try:
        with os.scandir(folder / Path(parent).expanduser()) as entries:
            names = [
                f"{entry.name}/" if entry.is_dir() else entry.name
                for _, entry in zip(range(5_000), entries, strict=False)
                if entry.name.startswith(name) and (name or not entry.name.startswith("."))
            ]
    except OSError:
        return []
    return [os.path.join(parent, found) for found in sorted(names)[:MOST_CANDIDATES]]
