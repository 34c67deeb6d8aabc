"""The shape of a model on the hub, from the first bytes of its files: nothing of its weights is fetched.

Owns how many bytes are asked for, which the parser says, and what a server may do
instead of sending them. Names, tokens and status codes are hub's business. Imports the
HTTP client, so it is imported when a remote name is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx

from bandwidth_model.errors import HeaderError, TruncatedHeader
from bandwidth_model.gguf import FIRST_READ_BYTES, MAX_HEADER_BYTES, GgufHeader, parse_header
from bandwidth_model.gguf_shape import shape_of_gguf
from bandwidth_model.reading import parts_of
from bandwidth_model.shape import ModelShape
from localchat.errors import WeightsError
from localchat.weights.download import TIMEOUT, continues, refuse_plain, with_faults_that_pass
from localchat.weights.entry import short_name
from localchat.weights.hub import Hub, HubFile, Remote, parse_spec
from localchat.weights.patience import PassingFault, Patience

LATER_PART_BYTES = 2**16  # later parts repeat no vocabulary: a few hundred tensors of some 80 bytes
GROWTH = 4  # a header that goes on is asked for in steps of this, so that few requests are needed
QUICK = Patience(attempts=3, then="run the same command again")


def fetch_shape(spec: str, environ: Mapping[str, str], patience: Patience = QUICK) -> ModelShape:
    """The model that ``hf:owner/repo/file.gguf[@revision]`` names. Raises WeightsError or UsageError."""
    file = parse_spec(spec)
    hub = Hub.from_environment(environ, Path.home())
    if hub.offline:
        raise WeightsError(
            f"{file} is on the hub, and HF_HUB_OFFLINE is set.", "Unset it to read the header there."
        )
    try:
        return shape_of_gguf(_fetch_headers(hub, file, patience), short_name(Path(file.name)))
    except HeaderError as error:
        raise WeightsError(f"{file}: {error}.", "Choose another file.") from error


def _fetch_headers(hub: Hub, file: HubFile, patience: Patience) -> list[GgufHeader]:
    """The headers of all parts, all of the revision that the first one turned out to have."""
    headers: list[GgufHeader] = []
    with httpx.Client(timeout=TIMEOUT, headers=hub.headers()) as client:
        for path in parts_of(Path(file.path)):
            part = _Beginning(client, hub, replace(file, path=path.as_posix()))
            headers.append(part.header(LATER_PART_BYTES if headers else FIRST_READ_BYTES, patience))
            file = replace(file, revision=part.commit or file.revision)
    if headers[0].split_count != len(headers):
        raise HeaderError(f"it is one of {headers[0].split_count} parts, and its name says otherwise")
    return headers


@dataclass(slots=True)
class _Beginning:
    """The first bytes of one file, as far as they were fetched."""

    client: httpx.Client
    hub: Hub
    file: HubFile
    data: bytearray = field(default_factory=bytearray)
    etag: str | None = None  # of the content these bytes are from
    commit: str | None = None

    def header(self, first_bytes: int, patience: Patience) -> GgufHeader:
        """Fetch as much as the header takes. What was fetched stays when an attempt fails."""
        found: list[GgufHeader] = []

        def attempt() -> None:
            found.append(self._attempt(first_bytes))

        patience.keep_trying(lambda: with_faults_that_pass(attempt, self.hub, lambda: len(self.data)))
        return found[-1]

    def _attempt(self, first_bytes: int) -> GgufHeader:
        remote = self.hub.look_up(self.client, self.file)
        self.commit = remote.commit
        wanted = first_bytes
        while True:
            self._fetch_up_to(min(wanted, remote.bytes, MAX_HEADER_BYTES), remote)
            try:
                header = parse_header(bytes(self.data))
            except TruncatedHeader as error:
                if len(self.data) >= remote.bytes:
                    raise HeaderError(f"it ends at byte {remote.bytes:,}, within its header") from None
                wanted = max(error.needed_bytes, GROWTH * len(self.data))
            else:
                return self._whole(header, remote)

    def _whole(self, header: GgufHeader, remote: Remote) -> GgufHeader:
        if header.file_bytes_expected > remote.bytes:
            raise HeaderError(
                f"it is cut short: {remote.bytes:,} bytes of {header.file_bytes_expected:,} are there"
            )
        return header

    def _fetch_up_to(self, wanted: int, remote: Remote) -> None:
        if len(self.data) >= wanted:
            return
        headers = {"Range": f"bytes={len(self.data)}-{wanted - 1}"}
        if self.data and self.etag:
            headers["If-Range"] = self.etag
        with self.client.stream("GET", remote.url, headers=headers, follow_redirects=True) as response:
            self._accept(response)
            for chunk in response.iter_raw():  # a server that ignores ranges would send the whole file
                self.data += chunk[: wanted - len(self.data)]
                if len(self.data) == wanted:
                    return
        raise PassingFault(f"The server sent {len(self.data):,} of {wanted:,} bytes")

    def _accept(self, response: httpx.Response) -> None:
        """Refuse errors; begin again where the answer does not go on where our bytes end."""
        if response.status_code == 416:
            self.data.clear()
            raise PassingFault("The file has changed on the server", 0.0)
        if response.status_code >= 400:
            self.hub.refuse(response, self.file)
        refuse_plain(self.hub, response)
        if not continues(response, len(self.data)):
            self.data.clear()
        etag = response.headers.get("etag", "")
        self.etag = etag if etag.startswith('"') else None  # a weak one may not be a condition
