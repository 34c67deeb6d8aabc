"""Server-sent events as bytes, both ways, without I/O.

Owns lines, fields and the limits on their size; any cutting of the same bytes into chunks
decodes alike. Does not know what the data means, but for OpenAI's closing word.

Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MEDIA_TYPE = "text/event-stream"
DONE = "[DONE]"
"""Data of the event that ends a completion: https://platform.openai.com/docs/api-reference/chat-streaming"""

MAX_LINE_BYTES = 1 << 20  # a chunk with a whole tool call's arguments stays far below
MAX_EVENT_BYTES = 4 << 20

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"


class OversizedEvent(ValueError):
    """A line or an event is larger than any that is meant to be read."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event. ``retry_ms`` is how long the sender asks to wait before reconnecting."""

    data: str
    event: str = "message"
    id: str = ""
    retry_ms: int | None = None

    @property
    def is_done(self) -> bool:
        return self.data.strip() == DONE


class Decoder:
    """Feed it bytes, get events. Comments pass silently; bytes that are not UTF-8 become U+FFFD.

    Raises OversizedEvent as soon as a limit is passed, whether or not the line has ended.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_line_bytes = max_line_bytes
        self._max_event_bytes = max_event_bytes
        self._held = bytearray()  # of a line that has not ended
        self._after_cr = False  # a line feed that comes next belongs to the line end before
        self._at_start = True
        self._data: list[str] = []
        self._size = 0
        self._event, self._id = "", ""
        self._retry_ms: int | None = None

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """The events that ``chunk`` completes."""
        if self._after_cr and chunk:
            chunk = chunk.removeprefix(b"\n")
            self._after_cr = False
        if not chunk:
            return
        self._after_cr = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        for line in lines:
            event = self._line(self._joined(line))
            if event:
                yield event
        self._held += rest
        self._check_line(len(self._held))

    def end(self) -> Iterator[ServerSentEvent]:
        """At the end of the stream: an event that lacks nothing but its blank line.

        The format says to drop it; servers that end without the blank line do exist, and a
        line cut in two is dropped in any case.
        """
        event = self._dispatch()
        if event:
            yield event

    def _joined(self, line: bytes) -> bytes:
        if self._held:
            line = bytes(self._held) + line
            self._held.clear()
        self._check_line(len(line))
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        return line

    def _check_line(self, size: int) -> None:
        if size > self._max_line_bytes:
            raise OversizedEvent(f"a line of more than {self._max_line_bytes:,} bytes")

    def _line(self, line: bytes) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        name, _, rest = line.partition(b":")
        value = rest.removeprefix(b" ").decode("utf-8", "replace")
        match name:
            case b"data":
                self._size += len(line)
                if self._size > self._max_event_bytes:
                    raise OversizedEvent(f"an event of more than {self._max_event_bytes:,} bytes")
                self._data.append(value)
            case b"event":
                self._event = value
            case b"id" if "\0" not in value:
                self._id = value
            case b"retry" if value.isascii() and value.isdigit() and len(value) < 10:
                self._retry_ms = int(value)
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        data, event, retry_ms = self._data, self._event, self._retry_ms
        self._data, self._size, self._event, self._retry_ms = [], 0, "", None
        if not data:
            return None
        return ServerSentEvent("\n".join(data), event or "message", self._id, retry_ms)


def encode(event: ServerSentEvent) -> bytes:
    """The bytes of an event, its blank line included."""
    lines = [f"data: {line}" for line in re.split(r"\r\n|\n|\r", event.data)]
    if event.event != "message":
        lines.insert(0, f"event: {_one_line(event.event)}")
    if event.id:
        lines.insert(0, f"id: {_one_line(event.id)}")
    if event.retry_ms is not None:
        lines.insert(0, f"retry: {event.retry_ms}")
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


def encode_data(data: str) -> bytes:
    """The bytes of an event that has only data; what a server sends for every token."""
    if "\n" in data or "\r" in data:
        return encode(ServerSentEvent(data))
    return b"data: " + data.encode("utf-8", "replace") + b"\n\n"


def encode_comment(text: str = "") -> bytes:
    """A comment keeps a connection alive and says nothing."""
    return f": {_one_line(text)}\n\n".encode("utf-8", "replace")


def _one_line(text: str) -> str:
    if "\n" in text or "\r" in text or "\0" in text:
        raise ValueError(f"{text!r} does not fit on one line of an event")
    return text
