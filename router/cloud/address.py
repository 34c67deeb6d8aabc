"""Which addresses a cloud may have, and in which form they are used.

Pure: nothing is looked up. An address comes from the configuration only, never from an
answer; what could carry a key or a conversation to a wrong place is refused before any
connection exists.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from router.errors import CloudMisconfigured

# Services inside data centres that hand out credentials to whoever asks,
# beside the link-local ones:
#   docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html (fd00:ec2::254)
#   cloud.google.com/compute/docs/metadata/querying-metadata (the names)
#   www.alibabacloud.com/help/en/ecs/user-guide/view-instance-metadata (100.100.100.200)
#   learn.microsoft.com/en-us/azure/virtual-network/what-is-ip-address-168-63-129-16
METADATA_NAMES = {"metadata", "metadata.google.internal", "metadata.goog", "instance-data"}
METADATA_ADDRESSES = {ipaddress.ip_address(a) for a in ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")}

_PATH = re.compile(r"[\w./~%:@+-]*", re.ASCII)
_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?", re.ASCII)
_NUMBER = re.compile(r"\d+|0x[0-9a-f]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Address:
    """Where requests go. ``base_url`` has no slash at its end."""

    base_url: str
    host: str
    is_loopback: bool

    @property
    def completions_url(self) -> str:
        return f"{self.base_url}/chat/completions"

    @property
    def place(self) -> str:
        """Host and port: what a key belongs to."""
        return urlsplit(self.base_url).netloc


def parse_base_url(text: str) -> Address:
    """The address a person means, or CloudMisconfigured with what is wrong and how it would be right.

    ``/v1`` is added where there is no path, and ``/chat/completions`` and a slash at the end are taken off.
    """
    parts = _split(text)
    host = (parts.hostname or "").lower()
    loopback = _check_host(host)
    if parts.scheme == "http" and not loopback:
        raise _wrong("base_url is not encrypted.", "Use https://; http:// is for this machine only.")
    path = parts.path.rstrip("/").removesuffix("/chat/completions").rstrip("/") or "/v1"
    if not _PATH.fullmatch(path) or ".." in path:
        raise _wrong("The path of base_url has odd characters.", "It usually ends with /v1.")
    shown = f"[{host}]" if ":" in host else host
    port = f":{parts.port}" if parts.port else ""
    return Address(f"{parts.scheme}://{shown}{port}{path}", host, loopback)


def _split(text: str) -> SplitResult:
    if not text.isascii() or not text.isprintable() or " " in text:
        raise _wrong("base_url has characters that no address has.", "Write it in plain ASCII.")
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  # raises for what is no port
    except ValueError as error:
        raise _wrong(
            f"base_url is not a web address: {error}.", "An example: https://api.openai.com/v1"
        ) from None
    if parts.username is not None or parts.password is not None:
        # not shown: it may hold a key
        raise _wrong("base_url holds a user name or password.", "Take it out; keys come from the keyring.")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _wrong("base_url is not a web address.", "An example: https://api.openai.com/v1")
    if parts.query or parts.fragment or text.endswith(("?", "#")):
        raise _wrong("base_url has a query or fragment.", "Cut it off at the question mark or hash.")
    return parts


def _check_host(host: str) -> bool:
    """Whether the host is this machine. Raises for those no cloud has."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _check_name(host)
    plain = getattr(address, "ipv4_mapped", None) or address
    if plain.is_unspecified:
        raise _wrong(f"{host} is where servers listen, not where they are.", "Use 127.0.0.1.")
    if plain.is_link_local or plain.is_multicast or plain in METADATA_ADDRESSES:
        raise _wrong(f"{host} is no address of a cloud.", "Link-local and metadata addresses are refused.")
    return plain.is_loopback


def _check_name(host: str) -> bool:
    name = host.removesuffix(".")
    if not _NAME.fullmatch(host) or len(host) > 253:
        raise _wrong("base_url has no valid host.", "An example: https://api.openai.com/v1")
    if _NUMBER.fullmatch(
        name.rpartition(".")[2]
    ):  # 2852039166 and 0xa9fea9fe are 169.254.169.254 to a resolver
        raise _wrong(f"{host} is an unusual way to write an address.", "Write it as 127.0.0.1 or as a name.")
    if name in METADATA_NAMES:
        raise _wrong(f"{host} is no address of a cloud.", "Link-local and metadata addresses are refused.")
    return name == "localhost" or name.endswith(".localhost")


def _wrong(message: str, step: str) -> CloudMisconfigured:
    return CloudMisconfigured(message, step)
