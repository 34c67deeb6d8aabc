"""Writes model files with random weights: as large, and stored as, a measurement needs them.

Owns a plain llama architecture and how a block of each storage type is filled so that
numbers stay finite. Such a file takes as long to run as a trained one and says nothing.
It has no vocabulary: an engine is given token numbers.

Layout: docs/gguf.md in github.com/ggml-org/ggml. Blocks: ggml/src/ggml-common.h of llama.cpp.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from bandwidth_model.ggml_types import GGML_TYPES, GgmlType

ALIGNMENT = 32
CHUNK_BYTES = 1 << 20  # of random blocks, written again and again
SCALE_OCTAVES = 0.6  # up and down, between normal random weights and trained ones: see docs/prediction.md

# The half-precision scales of a block: (where, value). Chosen so that weights are near 0 in the mean
# and vary by about 0.02, as trained ones do: attention over other values takes another time.
_SCALES: dict[str, tuple[tuple[int, float], ...]] = {
    "Q4_0": ((0, 2**-8),),
    "Q4_1": ((0, 2**-8), (2, -7.5 * 2**-8)),
    "Q5_0": ((0, 2**-9),),
    "Q5_1": ((0, 2**-9), (2, -15.5 * 2**-9)),
    "Q8_0": ((0, 2**-12),),
    "Q2_K": ((80, 2**-9), (82, 1.5 * 2**-9)),
    "Q3_K": ((108, 2**-11),),
    "Q4_K": ((0, 2**-14), (2, 7.5 * 2**-14)),
    "Q5_K": ((0, 2**-15), (2, 15.5 * 2**-15)),
    "Q6_K": ((208, 2**-16),),
    "IQ4_NL": ((0, 2**-12),),
    "IQ4_XS": ((0, 2**-16),),
}
WRITABLE = (*_SCALES, "F16", "BF16", "F32")
_NUMBERS = {kind.name: number for number, kind in GGML_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Geometry:
    """A llama: rows of K types must be multiples of 256 long, of other types of 32."""

    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_length: int = 64
    vocabulary: int = 4096
    context: int = 8192


def write_random_gguf(
    path: Path, geometry: Geometry, quantization: str, *, head: str | None = None, seed: int = 0
) -> None:
    """A file whose matrices are stored as ``quantization``, its (tied) output head as ``head``.

    Raises ValueError for a type that cannot be written or whose blocks do not fit the rows.
    """
    tensors = list(_tensors(geometry, quantization, head or quantization))
    with path.open("wb") as file:
        file.write(_header(geometry, tensors))
        random = Random(seed)
        chunks: dict[str, bytes] = {}
        for _, shape, kind in tensors:
            if kind.name not in chunks:
                chunks[kind.name] = _blocks(kind, random, is_norm=len(shape) == 1)
            nbytes = _nbytes(shape, kind)
            whole, rest = divmod(nbytes, len(chunks[kind.name]))
            for _ in range(whole):
                file.write(chunks[kind.name])
            file.write(chunks[kind.name][:rest] + bytes(-nbytes % ALIGNMENT))


Tensor = tuple[str, tuple[int, ...], GgmlType]


def _tensors(g: Geometry, quantization: str, head: str) -> Iterator[Tensor]:
    matrix, norm = _type(quantization), _type("F32")
    yield "token_embd.weight", (g.hidden, g.vocabulary), _type(head)
    yield "output_norm.weight", (g.hidden,), norm
    query, key = g.heads * g.head_length, g.kv_heads * g.head_length
    shapes = {
        "attn_q": (g.hidden, query),
        "attn_k": (g.hidden, key),
        "attn_v": (g.hidden, key),
        "attn_output": (query, g.hidden),
        "ffn_gate": (g.hidden, g.feed_forward),
        "ffn_up": (g.hidden, g.feed_forward),
        "ffn_down": (g.feed_forward, g.hidden),
    }
    for layer in range(g.layers):
        yield f"blk.{layer}.attn_norm.weight", (g.hidden,), norm
        yield f"blk.{layer}.ffn_norm.weight", (g.hidden,), norm
        for name, shape in shapes.items():
            yield f"blk.{layer}.{name}.weight", shape, matrix


def _type(name: str) -> GgmlType:
    if name not in WRITABLE:
        raise ValueError(f"random weights are not written as {name}; these are: {', '.join(WRITABLE)}")
    return GGML_TYPES[_NUMBERS[name]]


def _nbytes(shape: tuple[int, ...], kind: GgmlType) -> int:
    blocks, rest = divmod(shape[0], kind.block_elements)
    if rest:
        raise ValueError(f"rows of {shape[0]} are not whole blocks of {kind.name}")
    count = 1
    for length in shape[1:]:
        count *= length
    return blocks * kind.type_bytes * count


def _blocks(kind: GgmlType, random: Random, is_norm: bool) -> bytes:
    count = CHUNK_BYTES // kind.type_bytes
    if is_norm:
        return struct.pack("<f", 1.0) * count
    if kind.name == "F32":
        return b"".join(struct.pack("<f", random.uniform(-0.02, 0.02)) for _ in range(count))
    raw = bytearray(random.randbytes(count * kind.type_bytes))
    if kind.name in ("F16", "BF16"):  # any sign and mantissa, a small exponent
        kept, exponent = (0x83, 0x24) if kind.name == "F16" else (0x80, 0x3C)
        raw[1::2] = bytes(each & kept | exponent for each in raw[1::2])
    if scales := _SCALES.get(kind.name):
        for start in range(0, count * kind.type_bytes, kind.type_bytes):
            factor = 2.0 ** random.uniform(-SCALE_OCTAVES, SCALE_OCTAVES)
            for at, value in scales:
                struct.pack_into("<e", raw, start + at, value * factor)
    return bytes(raw)


def _header(g: Geometry, tensors: list[Tensor]) -> bytes:
    metadata: dict[str, str | int | float] = {
        "general.architecture": "llama",
        "general.name": "random weights",
        "llama.block_count": g.layers,
        "llama.context_length": g.context,
        "llama.embedding_length": g.hidden,
        "llama.feed_forward_length": g.feed_forward,
        "llama.attention.head_count": g.heads,
        "llama.attention.head_count_kv": g.kv_heads,
        "llama.attention.key_length": g.head_length,
        "llama.attention.value_length": g.head_length,
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": g.head_length,
        "llama.vocab_size": g.vocabulary,
        "tokenizer.ggml.model": "none",
    }
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(_text(key) + _value(value) for key, value in metadata.items())
    offset = 0
    for name, shape, kind in tensors:
        nbytes = _nbytes(shape, kind)
        head += _text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += struct.pack("<IQ", _NUMBERS[kind.name], offset)
        offset += nbytes + -nbytes % ALIGNMENT
    return head + bytes(-len(head) % ALIGNMENT)


def _text(string: str) -> bytes:
    raw = string.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(value: str | int | float) -> bytes:
    """Numbers of the value types: enum gguf_metadata_value_type in docs/gguf.md."""
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    return struct.pack("<If", 6, value)
