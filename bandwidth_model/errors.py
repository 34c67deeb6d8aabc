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


class UnknownKvType(BandwidthModelError):
    """No cache is stored in a type of that name."""

    def __init__(self, kv_type: str) -> None:
        super().__init__(f"{kv_type!r} is no type of a KV cache; F16, Q8_0 and Q4_0 are.")


class UnknownDevice(BandwidthModelError):
    """No device of that name is in the table, or several are."""


class ProbeFailed(BandwidthModelError):
    """This machine could not be measured."""
