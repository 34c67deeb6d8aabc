"""What can go wrong when a model's header or a machine is read."""

from __future__ import annotations


class BandwidthModelError(Exception):
    """``str()`` is one line: what is wrong, and where."""


class HeaderError(BandwidthModelError):
    """The bytes are not a model header this package understands."""


class TruncatedHeader(HeaderError):
    """The bytes end before the header does.

    ``needed_bytes`` is a lower bound on the length that would let the parser
    get further, for callers that fetch by range.
    """

    def __init__(self, message: str, needed_bytes: int) -> None:
        super().__init__(message)
        self.needed_bytes = needed_bytes
