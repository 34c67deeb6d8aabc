"""One model that can be run: its short name and its file.

Owns names and the naming of split files. Does not look at the disk beyond that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Source = Literal["default", "pulled", "path", "ollama", "lmstudio", "llama.cpp", "huggingface"]

# "%s-%05d-of-%05d.gguf": llama_split_path in src/llama.cpp of llama.cpp
_SPLIT = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Weights:
    """``path`` is the first part of a split model, ``bytes`` the size of all parts.

    ``sha256`` is what the file should have, as said by where it came from; None
    where nobody said it.
    """

    name: str
    path: Path
    bytes: int
    source: Source
    sha256: str | None = None

    def answers_to(self, name: str) -> bool:
        """Whether a person who types ``name`` means this one."""
        return name.lower() in (self.name, self.path.name.lower(), self.name.removesuffix(":latest"))


def short_name(path: Path) -> str:
    """The name to type: the stem in lower case, without the part number of a split model."""
    split = _SPLIT.fullmatch(path.name)
    return (split["stem"] if split else path.name.removesuffix(".gguf").removesuffix(".GGUF")).lower()


def is_later_part(path: Path) -> bool:
    split = _SPLIT.fullmatch(path.name)
    return split is not None and int(split["number"]) != 1


def parts(path: Path) -> tuple[Path, ...]:
    """The files a model should consist of: ``path`` alone, or all parts of a split one."""
    split = _SPLIT.fullmatch(path.name)
    if split is None:
        return (path,)
    count = int(split["count"])
    return tuple(path.with_name(f"{split['stem']}-{n:05}-of-{count:05}.gguf") for n in range(1, count + 1))
