"""Compressed bodies in pieces of bounded size, without I/O.

Servers are asked not to compress; one that does so anyway is read, but never trusted to
say how large its content becomes.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

PIECE_BYTES = 1 << 16
ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS  # tells the two apart by their header: zlib's manual, inflateInit2


class Inflater:
    """Feed it what came, get the content in pieces of at most 64 KiB. Raises ValueError for damage."""

    def __init__(self, encoding: str) -> None:
        """ValueError for an encoding that nobody here reads."""
        encoding = encoding.strip().lower()
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise ValueError("it is compressed in a way that was not asked for")
        self._zlib = None if encoding in ("", "identity") else zlib.decompressobj(ZLIB_OR_GZIP)

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._zlib is None:
            yield data
            return
        while data and not self._zlib.eof:
            try:
                piece = self._zlib.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise ValueError("its compression is damaged") from error
            data = self._zlib.unconsumed_tail
            if piece:
                yield piece
