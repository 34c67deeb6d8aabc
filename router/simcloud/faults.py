"""Faults that a simulated cloud shows on demand, so that clients can be tried against them.

Owns their names and how they are written. Pure; the server carries them out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from router.errors import (
    CloudBusy,
    CloudFault,
    CloudModelUnknown,
    CloudRefused,
    InvalidRequest,
    InvalidSimulation,
    RouterError,
    TooLarge,
)

KINDS = (
    *("400", "401", "403", "404", "408", "413", "429", "500", "502", "503"),
    *("latency", "silence", "cut", "stall", "malformed", "oversized", "endless", "lies", "html", "redirect"),
)
MEANINGS = {
    "400 ... 503": "that status; 429:N asks for a wait of N s",
    "latency:N": "headers N s later, 3 without N",
    "silence": "no answer at all",
    "cut:N": "the connection ends after N tokens, 3 without N",
    "stall:N": "nothing more comes after N tokens",
    "malformed:N": "a chunk after N tokens is not JSON",
    "oversized": "a line that is longer than any client should read",
    "endless": "the answer does not end",
    "lies": "usage counts what never was",
    "html": "a web page instead of an answer",
    "redirect": "it has moved elsewhere",
}
_USUAL = {"latency": 3.0, "cut": 3.0, "stall": 3.0, "malformed": 3.0, "429": 1.0}
_WRITTEN = re.compile(r"(?P<kind>[a-z]+|\d{3})(:(?P<number>\d{1,4}(\.\d{1,3})?))?(\*(?P<times>\d{1,4}))?")


@dataclass(slots=True)
class Fault:
    """``number`` is seconds or tokens, by kind; ``times`` None: every request has it."""

    kind: str
    number: float = 0.0
    times: int | None = None

    def __str__(self) -> str:
        number = f":{self.number:g}" if self.number else ""
        return f"{self.kind}{number}{'' if self.times is None else f'*{self.times}'}"

    @property
    def error(self) -> RouterError | None:
        """What a request is answered with instead of an answer."""
        said = "This fault was asked for."
        match self.kind:
            case "400":
                return InvalidRequest(said)
            case "401" | "403":
                return CloudRefused(said, status=int(self.kind))
            case "404":
                return CloudModelUnknown(said, status=404)
            case "413":
                return TooLarge(said)
            case "429":
                return CloudBusy(said, status=429, retry_after_s=self.number)
            case "408" | "500" | "502" | "503":
                return CloudFault(said, status=int(self.kind))
        return None


def parse_fault(text: str) -> Fault | None:
    """``KIND[:NUMBER][*TIMES]``, None for "" and "none". Raises InvalidSimulation."""
    if text in ("", "none"):
        return None
    found = _WRITTEN.fullmatch(text)
    if found is None or found["kind"] not in KINDS:
        raise InvalidSimulation(
            f"{text[:40]!r} is no fault.", f"There are: none, {', '.join(KINDS)}; 500*2 fails twice."
        )
    number = float(found["number"]) if found["number"] else _USUAL.get(found["kind"], 0.0)
    times = int(found["times"]) if found["times"] else None
    return Fault(found["kind"], number, times)


class FaultSwitch:
    """The fault that is switched on; one with a number of times switches itself off."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault

    def next(self) -> Fault | None:
        """What the next request meets."""
        fault = self.fault
        if fault is None or fault.times is None:
            return fault
        fault.times -= 1
        if fault.times <= 0:
            self.fault = None
        return fault
