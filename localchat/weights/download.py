"""Receives one file of the hub into its part: resumed where it was cut, and checked.

Reads as its steps: look up, resume or start, receive, verify. Knows HTTP ranges;
names, tokens and status codes are hub's business, the bytes so far part's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import httpx

from bandwidth_model.errors import HeaderError, TruncatedHeader
from bandwidth_model.gguf import parse_header, read_header
from localchat.errors import WeightsError
from localchat.weights.hub import Hub, HubFile, Remote
from localchat.weights.part import PartFile
from localchat.weights.patience import PassingFault, Patience

TIMEOUT = httpx.Timeout(30.0, connect=10.0)  # between two reads, not for the whole file
HEADER_LOOK_BYTES = 2**16
PROGRESS_WORTH_BYTES = 2**20  # an attempt that brought this much does not count against patience

Update = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Receipt:
    sha256: str
    bytes: int
    commit: str | None


def download(
    hub: Hub,
    file: HubFile,
    part: PartFile,
    update: Update,
    patience: Patience,
    have_sha256: str | None = None,
) -> Receipt | None:
    """Fill ``part`` with the whole, verified file; None when ``have_sha256`` is the hub's version.

    ``update`` gets the bytes so far and the total; what it raises stops here
    and keeps the part. Raises WeightsError; a wrong checksum empties the part.
    """
    receipt: Receipt | None = None

    def attempt() -> None:
        nonlocal receipt
        remote = hub.look_up(client, file)
        if have_sha256 is None or have_sha256 != remote.sha256:
            _receive(client, hub, file, remote, part, update)
            receipt = _verified(part, remote, file.name)

    with httpx.Client(timeout=TIMEOUT, headers=hub.headers()) as client:
        patience.keep_trying(lambda: with_faults_that_pass(attempt, hub, lambda: part.size))
    return receipt


def with_faults_that_pass(attempt: Callable[[], None], hub: Hub, size: Callable[[], int]) -> None:
    """Run one attempt; what happens to connections becomes a PassingFault. ``size``: what there is so far."""
    began_with = size()
    try:
        attempt()
    except httpx.UnsupportedProtocol as error:
        raise WeightsError(f"{hub.endpoint} leads to an address that is not HTTP: {error}.") from error
    except httpx.TransportError as error:
        raise PassingFault(
            f"The connection to {hub.endpoint} failed ({str(error) or type(error).__name__})",
            progressed=size() - began_with >= PROGRESS_WORTH_BYTES,
        ) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise WeightsError(f"{hub.endpoint} answers something odd: {error}.", "Check HF_ENDPOINT.") from error


def _receive(
    client: httpx.Client, hub: Hub, file: HubFile, remote: Remote, part: PartFile, update: Update
) -> None:
    part.belong_to(remote.etag)
    if part.size > remote.bytes:
        part.restart()
    part.check_space(remote.bytes)
    update(part.size, remote.bytes)
    if part.size != remote.bytes:
        _receive_rest(client, hub, file, remote, part, update)
    if part.size < remote.bytes:
        raise PassingFault(f"The server sent {part.size:,} of {remote.bytes:,} bytes")


def _receive_rest(
    client: httpx.Client, hub: Hub, file: HubFile, remote: Remote, part: PartFile, update: Update
) -> None:
    with client.stream("GET", remote.url, headers=_range(part), follow_redirects=True) as response:
        if response.status_code == 416:  # the file is shorter than our part of it
            part.restart()
            raise PassingFault("The file has changed on the server", 0.0)
        if response.status_code >= 400:
            hub.refuse(response, file)
        refuse_plain(hub, response)
        if not continues(response, part.size):
            part.restart()
        etag = response.headers.get("etag", "")
        part.note(etag if etag.startswith('"') else None)  # a weak one may not be a condition
        for chunk in response.iter_raw():
            _take(part, chunk, remote, file.name)
            update(part.size, remote.bytes)


def _range(part: PartFile) -> dict[str, str]:
    """Ask for the rest, on condition that the content is still the same (RFC 9110, 13.1.5)."""
    if not part.size:
        return {}
    condition = {"If-Range": part.content_etag} if part.content_etag else {}
    return {"Range": f"bytes={part.size}-", **condition}


def refuse_plain(hub: Hub, response: httpx.Response) -> None:
    """A hub reached with encryption may not lead to content without."""
    if hub.endpoint.startswith("https:") and response.url.scheme != "https":
        raise WeightsError(f"{hub.endpoint} leads to {response.url.host} without encryption.")


def continues(response: httpx.Response, size: int) -> bool:
    """Whether the server goes on where the part ends; one that ignores ranges begins again with 200."""
    begins_at = f"bytes {size}-"
    return response.status_code == 206 and response.headers.get("content-range", "").startswith(begins_at)


def _take(part: PartFile, chunk: bytes, remote: Remote, name: str) -> None:
    is_first = part.size == 0
    part.write(chunk)
    if is_first:
        _check_beginning(part, name)
    if part.size > remote.bytes:
        part.restart()
        raise WeightsError(f"The server sends more than the {remote.bytes:,} bytes of {name}.")


def _check_beginning(part: PartFile, name: str) -> None:
    """A web page or an archive is recognised before gigabytes of it arrive."""
    try:
        parse_header(part.first_bytes(HEADER_LOOK_BYTES))
    except TruncatedHeader:
        return
    except HeaderError as error:
        part.restart()
        raise WeightsError(f"{name} cannot be used: {error}.", "Choose another file.") from error


def _verified(part: PartFile, remote: Remote, name: str) -> Receipt:
    actual = part.sha256()
    if remote.sha256 not in (None, actual):
        part.restart()
        raise WeightsError(
            f"{name} arrived damaged: its sha256 is {actual}, not {remote.sha256}. It was deleted.",
            "Run the same command to fetch it again.",
        )
    check_content(part, name)
    return Receipt(actual, part.size, remote.commit)


def check_content(part: PartFile, name: str) -> None:
    """Raise WeightsError, and empty the part, unless it holds a whole GGUF file."""
    try:
        read_header(part.flush())
    except HeaderError as error:
        part.restart()
        raise WeightsError(f"{name} cannot be used: {error}.", "Choose another file.") from error
