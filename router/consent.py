"""What a person is asked before identifiers or secrets leave, and what may be answered.

Types only: finding them is :mod:`router.privacy`'s business, asking that of a surface.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

Rule = Literal["ask", "redact", "local", "send"]
"""What becomes of identifiers and secrets: ask, replace them, keep such a question here, or nothing."""
Consent = Literal["send", "redact", "keep"]
PrivacyAction = Literal["", "asked", "sent", "redacted", "kept local", "refused"]
""" "": nothing was found, or nothing was about to leave; asked: a person saw it and sent it; sent: by rule;
refused: a person saw it and kept it."""


@dataclass(frozen=True, slots=True)
class Departure:
    """``body`` is exactly what would leave, ``redacted`` the same with placeholders for what was
    found; ``found`` says what that is, in words, "" for nothing."""

    cloud: str
    found: str
    body: str
    redacted: str


AskPerson = Callable[[Departure], Awaitable[Consent]]
"""May raise :class:`router.errors.Withheld` where nobody can be asked."""
