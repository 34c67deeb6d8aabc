"""What can be found, and how one find is written down. Knows nothing of how it is found."""

from __future__ import annotations

from typing import Literal, NamedTuple

Kind = Literal["private key", "key", "password", "card", "iban", "ssn", "email", "phone"]

PLURALS: dict[Kind, tuple[str, str]] = {
    "private key": ("private key", "private keys"),
    "key": ("access key", "access keys"),
    "password": ("password", "passwords"),
    "card": ("card number", "card numbers"),
    "iban": ("bank account (IBAN)", "bank accounts (IBAN)"),
    "ssn": ("US tax number", "US tax numbers"),
    "email": ("e-mail address", "e-mail addresses"),
    "phone": ("phone number", "phone numbers"),
}
"""One and many, in words for a person; where two finds overlap, the kind that stands first names them."""

PRECEDENCE: dict[Kind, int] = {kind: place for place, kind in enumerate(PLURALS)}


class Hit(NamedTuple):
    """``what`` says which one of a kind, as far as that is known: "GitHub token"."""

    start: int
    end: int
    kind: Kind
    what: str


def apart(hits: list[Hit]) -> list[Hit]:
    """In order and disjoint: what overlaps becomes one, so that no part of either is left behind."""
    found: list[Hit] = []
    for hit in sorted(hits):
        if not found or hit.start >= found[-1].end:
            found.append(hit)
            continue
        last = found[-1]
        first = min(last, hit, key=lambda each: PRECEDENCE[each.kind])
        found[-1] = Hit(last.start, max(last.end, hit.end), first.kind, first.what)
    return found
