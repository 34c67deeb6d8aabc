"""A hub on the loopback, and its content network on another port: what the tests download from.

Behaves as huggingface.co does (headers, redirects, ranges), and badly when told to.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


@dataclass
class Fault:
    """What the content network does wrong with one GET: an error status, or a body cut short."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    cut_after: int | None = None


@dataclass
class Hub:
    """``files`` maps ``owner/repo/path`` to content, ``refused`` to a status and an error code.

    ``faults`` are used up one per GET of content. ``requests`` keeps (place,
    method, path, headers) of everything that was asked.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, tuple[int, str]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: list[tuple[str, str, str, dict[str, str]]] = field(default_factory=list)
    redirects: bool = True
    renamed: dict[str, str] = field(default_factory=dict)
    linked_headers: bool = True
    honours_ranges: bool = True
    content_etag: str | None = None
    claimed_sha256: str | None = None
    claimed_bytes: int | None = None
    commit: str | None = "c0ffee"
    chunk_bytes: int = 16384
    pause_s: float = 0.0
    hub_port: int = 0
    content_port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.hub_port}"

    def asked(self, method: str, place: str | None = None) -> list[dict[str, str]]:
        """The headers of every ``method`` request, optionally of one place only."""
        return [
            headers for where, how, _, headers in self.requests if how == method and place in (None, where)
        ]


@contextmanager
def running_hub(hub: Hub) -> Iterator[Hub]:
    servers = [ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub, place)) for place in ("hub", "content")]
    hub.hub_port, hub.content_port = (server.server_address[1] for server in servers)
    threads = [threading.Thread(target=server.serve_forever, args=(0.01,)) for server in servers]
    for server, thread in zip(servers, threads, strict=True):
        server.daemon_threads = True
        server.block_on_close = False
        thread.start()
    try:
        yield hub
    finally:
        for server, thread in zip(servers, threads, strict=True):
            server.shutdown()
            thread.join()
            server.server_close()


def _handler(hub: Hub, place: str) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            self._answer()

        def _answer(self) -> None:
            hub.requests.append((place, self.command, self.path, dict(self.headers)))
            segments = [unquote(segment) for segment in urlsplit(self.path).path.split("/")[1:]]
            owner, repo = segments[:2]
            # the hub's addresses are /owner/repo/resolve/revision/path, the network's /owner/repo/path
            name = "/".join([owner, repo, *segments[4 if place == "hub" else 2 :]])
            if place == "content":
                self._send_content(hub.files[name])
            elif f"{owner}/{repo}" in hub.renamed:
                self._send(307, {"Location": self.path.replace(repo, hub.renamed[f"{owner}/{repo}"], 1)})
            elif name in hub.refused:
                status, code = hub.refused[name]
                self._send(status, {"X-Error-Code": code} if code else {})
            elif name not in hub.files:
                self._send(404, {"X-Error-Code": "EntryNotFound"})
            else:
                self._send_from_hub(name, hub.files[name])

        def _send_from_hub(self, name: str, content: bytes) -> None:
            digest = hub.claimed_sha256 or hashlib.sha256(content).hexdigest()
            headers = {"X-Repo-Commit": hub.commit} if hub.commit else {}
            if hub.linked_headers:
                headers |= {
                    "X-Linked-Etag": f'"{digest}"',
                    "X-Linked-Size": str(hub.claimed_bytes or len(content)),
                }
            if hub.redirects:
                location = f"http://127.0.0.1:{hub.content_port}/{name}"
                self._send(302, headers | {"Location": location})
            elif self.command == "HEAD":
                self._send(200, headers | {"ETag": f'"{digest[:40]}"'}, content)
            else:
                self._send_content(content)

        def _send_content(self, content: bytes) -> None:
            fault = hub.faults.pop(0) if hub.faults else Fault()
            if fault.status:
                self._send(fault.status, fault.headers)
                return
            etag = hub.content_etag or f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            status, headers, body = self._ranged(content, etag)
            self._send(status, {"ETag": etag, **headers}, body, fault.cut_after)

        def _ranged(self, content: bytes, etag: str) -> tuple[int, dict[str, str], bytes]:
            wanted = self.headers.get("Range")
            if not wanted or not hub.honours_ranges or self.headers.get("If-Range", etag) != etag:
                return 200, {}, content
            first, last = wanted.removeprefix("bytes=").split("-")
            start, stop = int(first), min(int(last or len(content) - 1) + 1, len(content))
            if start >= len(content):
                return 416, {"Content-Range": f"bytes */{len(content)}"}, b""
            headers = {"Content-Range": f"bytes {start}-{stop - 1}/{len(content)}"}
            return 206, headers, content[start:stop]

        def _send(
            self, status: int, headers: dict[str, str], body: bytes = b"", cut_after: int | None = None
        ) -> None:
            self.send_response(status)
            for header, value in headers.items():
                self.send_header(header, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "HEAD":
                return
            sent = body if cut_after is None else body[:cut_after]
            for start in range(0, len(sent), hub.chunk_bytes):
                try:
                    self.wfile.write(sent[start : start + hub.chunk_bytes])
                except (BrokenPipeError, ConnectionResetError):  # the client had enough
                    break
                time.sleep(hub.pause_s)
            if cut_after is not None:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    return Handler
