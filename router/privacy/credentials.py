"""Keys, tokens, passwords: what opens something. Works on folded text.

Owns how a find by its first characters is made sure of. A secret that has neither a form of its
own (services.toml) nor a name beside it ("password = ...") looks like any other word: it is not found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from router.privacy.formats import Service, services
from router.privacy.kinds import Hit

_IN_A_WORD = re.compile(r"[A-Za-z0-9_-]")


def keys(text: str) -> Iterator[Hit]:
    for service in services():
        for begin in service.begins:
            yield from _of_service(text, service, begin)


def _of_service(text: str, service: Service, begin: str) -> Iterator[Hit]:
    at = text.find(begin)
    while at >= 0:
        end = at + len(begin)
        rest = service.rest.match(text, end)
        within_a_word = at > 0 and _IN_A_WORD.match(text, at - 1)
        if rest and not within_a_word and (not service.needs_digit or any(map(str.isdecimal, rest[0]))):
            end = rest.end()
            yield Hit(at, end, "key", service.name)
        at = text.find(begin, end)


_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]{0,40})PRIVATE KEY( BLOCK)?-----")
_BODY = re.compile(r"[A-Za-z0-9+/=\s\\:,.()-]*")  # with the headers of old PEM and the \n of JSON
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


def private_keys(text: str) -> Iterator[Hit]:
    """PEM and OpenPGP blocks; one that is cut off, as far as it goes."""
    done = 0
    while begin := _BLOCK.search(text, done):
        body = _BODY.match(text, begin.end())
        limit = body.end() if body else begin.end()
        end = _END.search(text, begin.end(), limit)
        done = end.end() if end else limit
        yield Hit(begin.start(), done, "private key", f"{begin[1]}private key")


# RFC 3986, 3.2.1; a user without a password is not looked for
_USER_INFO = re.compile(r"://[^\s/?#@:'\"<>]{0,256}:([^\s/?#@'\"<>]{1,256})@")
_STANDS_FOR_ONE = re.compile(r"[$%{<*]|your|x{3}|\.{3}|os\.|process\.|env\b", re.I)
_ASSIGNED = re.compile(
    r"(?:password|passwd|passphrase|pwd|secret|token|(?:api|access|auth|account|private|secret)[_ -]?key)"
    r"[\"'`\\]{0,3}\s{0,4}(?::=|=>|[:=]|\sis\s)\s{0,4}[\"'`\\]{0,3}(?:(?:bearer|basic)\s{1,4})?"
    r"([^\s\"'`,;<>{}()\[\]\\]{8,512})(\(?)",
    re.I,
)
_HEADER = re.compile(
    r"\bauthorization[\"']?\s{0,4}:\s{0,4}[\"']?(?:bearer|basic|token)\s{1,4}([\w.~+/=-]{8,4096})", re.I
)


def passwords(text: str) -> Iterator[Hit]:
    """In links, behind a name such as ``api_key =``, and in HTTP headers."""
    for match in _USER_INFO.finditer(text):
        if not _STANDS_FOR_ONE.match(match[1]):
            yield Hit(*match.span(1), "password", "password in a link")
    for match in _ASSIGNED.finditer(text):
        value, call = match[1], match[2]
        mixed = re.search("[0-9]", value) and re.search("[A-Za-z]", value)
        if mixed and not call and not _STANDS_FOR_ONE.match(value):
            yield Hit(*match.span(1), "password", "password or key by name")
    for match in _HEADER.finditer(text):
        yield Hit(*match.span(1), "password", "authorization header")
