"""Writes small GGUF files byte by byte, so that a test can also write wrong ones."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

Tensor = tuple[str, tuple[int, ...], int, int]  # name, shape, ggml type number, bytes

DEFAULT_METADATA: Mapping[str, object] = {
    "general.architecture": "llama",
    "general.name": "Tiny",
    "general.file_type": 3,
    "llama.context_length": 64,
    "llama.block_count": 1,
    "tokenizer.ggml.tokens": ["a", "bc", "", "def"],
}
DEFAULT_TENSORS: Sequence[Tensor] = (
    ("token_embd.weight", (32, 4), 3, 80),
    ("output_norm.weight", (32,), 0, 128),
)


def gguf_bytes(
    metadata: Mapping[str, object] = DEFAULT_METADATA,
    tensors: Sequence[Tensor] = DEFAULT_TENSORS,
    *,
    version: int = 3,
    order: str = "<",
    alignment: int = 32,
    fill: bytes = b"\x5a",
) -> bytes:
    """A whole file: header, padding and tensor data made of ``fill``."""
    head = b"GGUF" + struct.pack(f"{order}IQQ", version, len(tensors), len(metadata))
    head += b"".join(text(key, order) + value(item, order) for key, item in metadata.items())
    data = b""
    for name, shape, kind, nbytes in tensors:
        data += b"\0" * (-len(data) % alignment)
        head += text(name, order) + struct.pack(f"{order}I{len(shape)}Q", len(shape), *shape)
        head += struct.pack(f"{order}IQ", kind, len(data))
        data += (fill * nbytes)[:nbytes]
    return head + b"\0" * (-len(head) % alignment if tensors else 0) + data


def text(string: str, order: str = "<") -> bytes:
    raw = string.encode()
    return struct.pack(f"{order}Q", len(raw)) + raw


def value(item: object, order: str = "<") -> bytes:
    match item:
        case bytes():  # already encoded, type and all
            return item
        case bool():
            return struct.pack(f"{order}I?", 7, item)
        case int():
            return struct.pack(f"{order}II", 4, item)
        case float():
            return struct.pack(f"{order}Id", 12, item)
        case str():
            return struct.pack(f"{order}I", 8) + text(item, order)
        case [str(), *_]:
            strings = b"".join(text(each, order) for each in item)
            return struct.pack(f"{order}IIQ", 9, 8, len(item)) + strings
        case [*numbers]:
            return struct.pack(f"{order}IIQ{len(numbers)}i", 9, 5, len(numbers), *numbers)
    raise TypeError(item)
