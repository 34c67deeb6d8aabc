"""What is done with a request that holds identifiers or secrets and is about to leave. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from router.privacy.scanning import Findings

Profile = Literal["ask", "redact", "keep-local"]
"""What a person wants done: be shown what would leave, send placeholders, or never send such a request."""

Action = Literal["send", "ask", "redact", "keep local", "refuse"]


@dataclass(frozen=True, slots=True)
class Treatment:
    """``why`` is for a person, "" where there is nothing to say."""

    action: Action
    why: str = ""


def treatment(profile: Profile, findings: Findings, *, can_ask: bool, flag: str) -> Treatment:
    """``can_ask``: somebody is there to answer; without, "ask" refuses and names ``flag``, which decides."""
    if not findings:
        return Treatment("send")
    holds = f"The request holds {findings}"
    if profile == "redact":
        return Treatment("redact", f"{holds}: the cloud gets placeholders instead.")
    if profile == "keep-local":
        return Treatment("keep local", f"{holds}: it stays on this machine.")
    if can_ask:
        return Treatment("ask", f"{holds}.")
    return Treatment("refuse", f"{holds}, and nobody is there to be asked. Decide with {flag}.")
