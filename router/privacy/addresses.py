"""E-mail addresses. Works on folded text; what is looked at around each @ is bounded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from router.privacy.kinds import Hit

LONGEST_LOCAL = 64  # RFC 5321, 4.5.3.1.1
LONGEST_LINK_USER = 300  # characters
_LOCAL = re.compile(r"[\w!#$%&'*+/=?^`{|}~.-]{1,64}\Z")
_PLAIN_START = re.compile(r"\w")  # a quotation mark or bracket before an address is not of it
_DOMAIN = re.compile(
    r"@(?:[^\W_](?:[\w-]{0,61}[^\W_])?\.){1,8}(?:xn--[a-z0-9-]{1,59}|[^\W\d_]{2,24})(?![\w-])", re.I
)
_FILE_NAMES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".css", ".js")  # logo@2x.png
_USER_IN_A_LINK = re.compile(r"://[^\s/?#@]{0,300}\Z")  # https://user:password@host
_NOBODY = ("git",)  # git@host is how to fetch from it


def emails(text: str) -> Iterator[Hit]:
    at = text.find("@")
    while at >= 0:
        domain = _DOMAIN.match(text, at)
        local = _LOCAL.search(text, max(0, at - LONGEST_LOCAL), at) if domain else None
        start = _PLAIN_START.search(text, local.start(), at) if local else None
        if domain and start and not _is_something_else(text, start.start(), domain):
            yield Hit(start.start(), domain.end(), "email", "e-mail address")
        at = text.find("@", at + 1)


def _is_something_else(text: str, start: int, domain: re.Match[str]) -> bool:
    if text[start : domain.start()] in _NOBODY or domain[0].lower().endswith(_FILE_NAMES):
        return True
    return _USER_IN_A_LINK.search(text, max(0, start - LONGEST_LINK_USER), start) is not None
