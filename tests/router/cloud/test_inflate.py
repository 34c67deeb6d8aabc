"""Compressed bodies: read in pieces of bounded size, whatever the chunks."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cloud.inflate import PIECE_BYTES, Inflater


@given(st.binary(max_size=2000), st.integers(1, 50), st.sampled_from(["gzip", "deflate", "", "identity"]))
def test_what_was_compressed_comes_back(data: bytes, size: int, encoding: str) -> None:
    sent = {"gzip": gzip.compress, "deflate": zlib.compress}.get(encoding, bytes)(data)
    inflater = Inflater(encoding)
    chunks = [sent[start : start + size] for start in range(0, len(sent), size)]
    assert b"".join(piece for chunk in chunks for piece in inflater.feed(chunk)) == data


def test_pieces_are_small_however_much_they_hold() -> None:
    pieces = Inflater("gzip").feed(gzip.compress(bytes(16 << 20)))
    sizes = [len(piece) for piece in pieces]
    assert sum(sizes) == 16 << 20
    assert max(sizes) <= PIECE_BYTES


def test_what_cannot_be_read_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="not asked for"):
        Inflater("br")
    with pytest.raises(ValueError, match="damaged"):
        list(Inflater("gzip").feed(b"not gzip at all"))
