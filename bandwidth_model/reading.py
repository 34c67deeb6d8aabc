"""A path -> the shape of the model there: a GGUF file, one of several parts, or an MLC directory.

Owns where the parts of a split file lie. Reads headers only.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from bandwidth_model.errors import HeaderError
from bandwidth_model.gguf import GgufHeader, TruncatedFile, read_header
from bandwidth_model.gguf_shape import shape_of_gguf
from bandwidth_model.mlc import is_mlc_directory, read_mlc
from bandwidth_model.mlc_shape import shape_of_mlc
from bandwidth_model.shape import ModelShape

# "%s-%05d-of-%05d.gguf": llama_split_path in src/llama.cpp of llama.cpp
_SPLIT = re.compile(r"(?P<stem>.+)-\d{5}-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
MAX_PARTS = 1024


def read_shape(path: str | os.PathLike[str]) -> ModelShape:
    """The shape of the model at ``path``; of a split model any part leads to all."""
    place = Path(path)
    if place.is_dir():
        if not is_mlc_directory(place):
            raise HeaderError(f"{place} is a folder without mlc-chat-config.json; name the .gguf file in it")
        return shape_of_mlc(read_mlc(place), place.resolve().name)
    split = _SPLIT.fullmatch(place.name)
    name = split["stem"] if split else place.stem
    return shape_of_gguf(_headers(parts_of(place)), name)


def parts_of(path: Path) -> tuple[Path, ...]:
    """The files a model consists of: ``path`` alone, or all parts of a split one."""
    split = _SPLIT.fullmatch(path.name)
    if split is None:
        return (path,)
    count = int(split["count"])
    if not 1 <= count <= MAX_PARTS:
        raise HeaderError(f"{path.name} claims to be one of {count} parts")
    return tuple(path.with_name(f"{split['stem']}-{n:05}-of-{count:05}.gguf") for n in range(1, count + 1))


def _headers(paths: tuple[Path, ...]) -> list[GgufHeader]:
    headers = []
    for path in paths:
        if not path.is_file():  # reading a pipe or device would hang
            raise HeaderError(f"{path} is missing" if not path.exists() else f"{path} is no regular file")
        try:
            headers.append(read_header(path))
        except TruncatedFile:
            raise
        except HeaderError as error:
            raise HeaderError(f"{path}: {error}") from None
        except OSError as error:
            raise HeaderError(f"{path} cannot be read: {error.strerror}") from None
    if headers[0].split_count != len(headers):
        raise HeaderError(
            f"{paths[0]} is one of {headers[0].split_count} parts, and its name does not lead to the others"
        )
    return headers
