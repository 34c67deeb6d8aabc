"""GGUF headers, versions 2 and 3, either byte order: bytes in, frozen values out.

Owns the file format. Does not know what a tensor is for, and never builds the
vocabulary: arrays of strings are stepped over and only their length is kept.
Refuses what llama.cpp refuses, so that a file accepted here is accepted there.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
Refusals: ggml/src/gguf.cpp of llama.cpp.
"""

from __future__ import annotations

import os
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from mmap import mmap
from types import MappingProxyType
from typing import Literal

from bandwidth_model.errors import HeaderError, TruncatedHeader
from bandwidth_model.ggml_types import FILE_TYPE_GUESSED, FILE_TYPES, GGML_TYPES, GgmlType

Buffer = bytes | bytearray | memoryview | mmap
Scalar = bool | int | float | str

MAGIC = b"GGUF"
DEFAULT_ALIGNMENT = 32  # GGUF_DEFAULT_ALIGNMENT in ggml/include/gguf.h
MAX_DIMENSIONS = 4  # GGML_MAX_DIMS in ggml/include/ggml.h
MAX_ELEMENTS = 2**63 - 1  # llama.cpp counts elements in an int64

# Our own limits: they bound time and memory on hostile input. Headers seen in the wild stay
# under 20 MB (a 262k vocabulary with merges), 100 entries and 50k tensors (unmerged experts).
MAX_HEADER_BYTES = 128 * 2**20
MAX_ENTRIES = 2**13
MAX_TENSORS = 2**17
MAX_KEPT_ARRAY = 4096
MAX_KEPT_NUMBERS = 2**18

FIRST_READ_BYTES = 2 * 2**20  # holds the header of a 50k vocabulary; larger ones take a second read

# enum gguf_type in ggml/include/gguf.h -> name and struct code
_NUMBERS = {
    0: ("uint8", "B"),
    1: ("int8", "b"),
    2: ("uint16", "H"),
    3: ("int16", "h"),
    4: ("uint32", "I"),
    5: ("int32", "i"),
    6: ("float32", "f"),
    7: ("bool", "?"),
    10: ("uint64", "Q"),
    11: ("int64", "q"),
    12: ("float64", "d"),
}
_STRING = 8
_ARRAY = 9


class TruncatedFile(HeaderError):
    """The file ends before its last tensor does: a download that was cut."""

    def __init__(self, path: str, file_bytes: int, expected_bytes: int, inside: str) -> None:
        super().__init__(
            f"{path} is truncated: it has {file_bytes:,} bytes and ends inside its {inside}, "
            f"which needs {'at least ' if inside == 'header' else ''}{expected_bytes:,}."
        )
        self.file_bytes = file_bytes
        self.expected_bytes = expected_bytes


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """An array of the metadata; ``value`` is kept for short arrays of numbers only."""

    type: str
    length: int
    value: tuple[bool | int | float, ...] | None = None


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """``shape`` has the fastest-varying dimension first; ``offset`` counts from the header's data_offset."""

    name: str
    shape: tuple[int, ...]
    ggml_type: GgmlType
    offset: int
    nbytes: int

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class GgufHeader:
    """All that stands before the tensor data. Of a split model: this part's share of the tensors."""

    version: int
    byte_order: Literal["little", "big"]
    metadata: Mapping[str, Scalar | ArrayInfo]
    tensors: tuple[TensorInfo, ...]
    alignment: int
    data_offset: int

    @property
    def file_bytes_expected(self) -> int:
        """The shortest file that holds every tensor; llama.cpp refuses anything shorter."""
        if not self.tensors:
            return self.data_offset
        last = self.tensors[-1]
        return self.data_offset + last.offset + last.nbytes

    @property
    def architecture(self) -> str | None:
        return self.text("general.architecture")

    @property
    def name(self) -> str | None:
        return self.text("general.name")

    @property
    def context_length(self) -> int | None:
        return self.integer(f"{self.architecture}.context_length")

    @property
    def block_count(self) -> int | None:
        return self.integer(f"{self.architecture}.block_count")

    @property
    def vocabulary_size(self) -> int | None:
        tokens = self.metadata.get("tokenizer.ggml.tokens")
        return tokens.length if isinstance(tokens, ArrayInfo) else None

    @property
    def chat_template(self) -> str | None:
        return self.text("tokenizer.chat_template")

    @property
    def quantization(self) -> str:
        """The file's own label for its mix of types, else the type that takes most bytes."""
        file_type = self.integer("general.file_type")
        if file_type is not None and (label := FILE_TYPES.get(file_type & ~FILE_TYPE_GUESSED)):
            return label
        bytes_by_type: Counter[str] = Counter()
        for tensor in self.tensors:
            bytes_by_type[tensor.ggml_type.name] += tensor.nbytes
        return bytes_by_type.most_common(1)[0][0] if bytes_by_type else "unknown"

    @property
    def parameter_count(self) -> int:
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def is_vocab_only(self) -> bool:
        return not self.tensors

    @property
    def split_no(self) -> int:
        return self.integer("split.no") or 0

    @property
    def split_count(self) -> int:
        return self.integer("split.count") or 1

    def text(self, key: str) -> str | None:
        """The string under ``key``; None when it is absent or something else."""
        value = self.metadata.get(key)
        return value if isinstance(value, str) else None

    def integer(self, key: str) -> int | None:
        """The integer under ``key``; None when it is absent or something else."""
        value = self.metadata.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def parse_header(data: Buffer) -> GgufHeader:
    """Read a header from the first bytes of a file.

    Raises TruncatedHeader when more bytes would help, HeaderError when they would not.
    """
    cursor = _Cursor(data)
    version = cursor.begin()
    tensor_count = _bounded("tensors", cursor.number("Q"), MAX_TENSORS)
    entry_count = _bounded("metadata entries", cursor.number("Q"), MAX_ENTRIES)
    metadata = _metadata(cursor, entry_count)
    alignment = _alignment(metadata)
    tensors = _tensors(cursor, tensor_count, alignment)
    return GgufHeader(
        version=version,
        byte_order="little" if cursor.order == "<" else "big",
        metadata=MappingProxyType(metadata),
        tensors=tensors,
        alignment=alignment,
        data_offset=_padded(cursor.at, alignment) if tensors else cursor.at,
    )


def read_header(path: str | os.PathLike[str]) -> GgufHeader:
    """Read the header of a file and check that the file is long enough for its tensors.

    Reads a growing prefix rather than mapping the file: a map dies by signal
    when another process shortens the file meanwhile.
    """
    with open(path, "rb") as file:
        file_bytes = os.fstat(file.fileno()).st_size
        wanted = FIRST_READ_BYTES
        data = file.read(wanted)
        while True:
            try:
                header = parse_header(data)
            except TruncatedHeader as error:
                if len(data) < wanted:
                    raise TruncatedFile(os.fspath(path), file_bytes, error.needed_bytes, "header") from None
                wanted = max(error.needed_bytes, 4 * wanted)
                data += file.read(wanted - len(data))
                continue
            if file_bytes < header.file_bytes_expected:
                raise TruncatedFile(os.fspath(path), file_bytes, header.file_bytes_expected, "tensor data")
            return header


def _metadata(cursor: _Cursor, count: int) -> dict[str, Scalar | ArrayInfo]:
    metadata: dict[str, Scalar | ArrayInfo] = {}
    for _ in range(count):
        key = cursor.text()
        if not key or key in metadata:
            raise HeaderError(f"the metadata key {key!r} is {'there twice' if key else 'empty'}")
        metadata[key] = cursor.value(key)
    return metadata


def _alignment(metadata: Mapping[str, Scalar | ArrayInfo]) -> int:
    alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
        raise HeaderError(f"general.alignment is {alignment!r}, not a power of two")
    return alignment


def _tensors(cursor: _Cursor, count: int, alignment: int) -> tuple[TensorInfo, ...]:
    tensors: list[TensorInfo] = []
    names: set[str] = set()
    offset = 0
    for _ in range(count):
        tensor = _tensor(cursor)
        if tensor.name in names:
            raise HeaderError(f"the tensor {tensor.name!r} is there twice")
        if tensor.offset != offset:
            raise HeaderError(f"the tensor {tensor.name!r} is at {tensor.offset:,}, not at {offset:,}")
        names.add(tensor.name)
        tensors.append(tensor)
        offset += _padded(tensor.nbytes, alignment)
    return tuple(tensors)


def _tensor(cursor: _Cursor) -> TensorInfo:
    name = cursor.text()
    dimensions = _bounded(f"dimensions of the tensor {name!r}", cursor.number("I"), MAX_DIMENSIONS)
    shape = tuple(cursor.number("Q") for _ in range(dimensions))
    elements = _bounded(f"elements of the tensor {name!r}", prod(shape), MAX_ELEMENTS)
    type_number = cursor.number("I")
    ggml_type = GGML_TYPES.get(type_number)
    if ggml_type is None:
        raise HeaderError(f"the tensor {name!r} has the unknown ggml type {type_number}")
    if (shape[0] if shape else 1) % ggml_type.block_elements:
        raise HeaderError(f"the rows of {name!r} are no multiple of {ggml_type.name}'s block")
    nbytes = elements // ggml_type.block_elements * ggml_type.type_bytes
    return TensorInfo(name, shape, ggml_type, cursor.number("Q"), nbytes)


def _bounded(what: str, count: int, limit: int) -> int:
    if count > limit:
        raise HeaderError(f"{count:,} {what} are claimed; at most {limit:,} are accepted")
    return count


def _padded(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


class _Cursor:
    """A place in the bytes. Nothing is allocated by a claimed count before the bytes are there."""

    def __init__(self, data: Buffer) -> None:
        self.data = data
        self.at = 0
        self.order = "<"
        self._end = len(data)
        self._numbers_left = MAX_KEPT_NUMBERS

    def begin(self) -> int:
        """Read magic and version, which also tells the byte order."""
        start = bytes(self.data[: len(MAGIC)])
        if not MAGIC.startswith(start):
            raise HeaderError(f"not a GGUF file: it begins with {start!r}")
        self._take(len(MAGIC))
        version = self.number("I")
        if version & 0xFFFF == 0:  # llama.cpp's own test for the other byte order
            self.order = ">"
            version = int.from_bytes(version.to_bytes(4, "little"), "big")
        if version not in (2, 3):
            raise HeaderError(f"GGUF version {version} is not supported, only 2 and 3")
        return version

    def number(self, code: Literal["I", "Q"]) -> int:
        start = self._take(4 if code == "I" else 8)
        number: int = struct.unpack_from(self.order + code, self.data, start)[0]
        return number

    def text(self, errors: Literal["strict", "replace"] = "strict") -> str:
        start = self._take(self.number("Q"))
        try:
            return bytes(self.data[start : self.at]).decode("utf-8", errors)
        except UnicodeDecodeError:
            raise HeaderError(f"the name at byte {start:,} is not UTF-8") from None

    def value(self, key: str) -> Scalar | ArrayInfo:
        kind = self.number("I")
        if kind == _STRING:
            return self.text("replace")  # llama.cpp takes any bytes here
        if kind == _ARRAY:
            return self._array(key)
        return self._numbers(key, kind, 1)[0]

    def _array(self, key: str) -> ArrayInfo:
        kind = self.number("I")
        length = self.number("Q")
        if kind == _STRING:
            self._skip_strings(length)
            return ArrayInfo("string", length)
        name, code = self._number_type(key, kind)
        if length <= min(MAX_KEPT_ARRAY, self._numbers_left):
            self._numbers_left -= length
            return ArrayInfo(name, length, self._numbers(key, kind, length))
        self._take(length * struct.calcsize(f"<{code}"))
        return ArrayInfo(name, length)

    def _numbers(self, key: str, kind: int, count: int) -> tuple[bool | int | float, ...]:
        layout = f"{self.order}{count}{self._number_type(key, kind)[1]}"
        start = self._take(struct.calcsize(layout))
        return struct.unpack_from(layout, self.data, start)

    def _number_type(self, key: str, kind: int) -> tuple[str, str]:
        if kind == _ARRAY:
            raise HeaderError(f"the metadata entry {key!r} is an array of arrays")
        if kind not in _NUMBERS:
            raise HeaderError(f"the metadata entry {key!r} has the unknown type {kind}")
        return _NUMBERS[kind]

    def _skip_strings(self, count: int) -> None:
        """The hot loop: a vocabulary is all of a header's work, so its locals are hoisted."""
        self._require(self.at + 8 * count)
        data, at = self.data, self.at
        read_length = struct.Struct(self.order + "Q").unpack_from
        try:
            for _ in range(count):
                at += 8 + read_length(data, at)[0]
        except (struct.error, IndexError, OverflowError):  # ``at`` lies past the end, by how much is moot
            self._require(at + 8)
            raise
        self._require(at)
        self.at = at

    def _take(self, count: int) -> int:
        """Step over ``count`` bytes and return where they began."""
        start = self.at
        self._require(start + count)
        self.at = start + count
        return start

    def _require(self, stop: int) -> None:
        if stop > MAX_HEADER_BYTES:
            raise HeaderError(f"the header claims to go on beyond {MAX_HEADER_BYTES:,} bytes")
        if stop > self._end:
            raise TruncatedHeader(f"the header goes on after byte {self._end:,}", stop)
