"""Can this file be run here? Says no with exact numbers, before an engine is started.

Reads headers only; knows nothing of where a file came from.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from localchat.errors import WeightsError
from localchat.weights.entry import parts

if TYPE_CHECKING:
    from bandwidth_model.gguf import GgufHeader

PULL_AGAIN = "Fetch the file again."


def check_usable(path: Path, available_bytes: int) -> GgufHeader:
    """The header of a model that fits ``available_bytes`` of memory.

    Raises WeightsError for everything an engine would fail on: no regular file,
    not a GGUF, cut short, a vocabulary without weights, or too large.
    """
    files = parts(path)
    needed = sum(_size(part) for part in files)
    first, *_ = [_header(part) for part in files]
    if first.split_count != len(files):
        raise WeightsError(
            f"{path} is one of {first.split_count} parts, and its name does not lead to the others.",
            "Give the parts their original names.",
        )
    if first.is_vocab_only and len(files) == 1:
        raise WeightsError(f"{path} holds a vocabulary and no weights.", "Choose the model's own file.")
    if needed > available_bytes:
        raise WeightsError(
            f"{path.name} needs {needed:,} bytes of memory; {available_bytes:,} are available.",
            "Close other programs or choose a smaller model: localchat weights list",
        )
    return first


def read_usable_header(path: Path) -> GgufHeader:
    """The header of a regular, complete GGUF file, or a WeightsError that says what it is instead."""
    _size(path)
    return _header(path)


def _size(path: Path) -> int:
    try:
        if path.is_dir():
            raise WeightsError(f"{path} is a folder.", "Name the .gguf file in it.")
        if not path.exists():
            raise WeightsError(f"{path} is missing.", PULL_AGAIN)
        if not path.is_file():  # reading a pipe or device would hang
            raise WeightsError(f"{path} is not a regular file.", "Name a .gguf file.")
        size = path.stat().st_size
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    if size == 0:
        raise WeightsError(f"{path} is empty (0 bytes).", PULL_AGAIN)
    return size


def _header(path: Path) -> GgufHeader:
    from bandwidth_model.errors import HeaderError
    from bandwidth_model.gguf import TruncatedFile, read_header

    try:
        return read_header(path)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    except TruncatedFile as error:
        raise WeightsError(str(error), PULL_AGAIN) from error
    except HeaderError as error:
        raise WeightsError(f"{path}: {error}.", "Choose a GGUF file: localchat weights list") from error
