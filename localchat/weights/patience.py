"""How long to keep trying: which waits, how many of them, and when to give up.

Knows faults that pass, not what was being attempted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from localchat.errors import WeightsError


class PassingFault(Exception):
    """An attempt failed in a way that may pass: a lost connection, a busy server.

    ``progressed``: the attempt got further than the one before.
    """

    def __init__(self, reason: str, wait_s: float | None = None, *, progressed: bool = False) -> None:
        super().__init__(reason)
        self.wait_s = wait_s
        self.progressed = progressed


@dataclass(frozen=True, slots=True)
class Patience:
    """Attempts in a row without progress, with doubling waits between them.

    ``then`` is what to do when it ends.
    """

    attempts: int = 5
    first_wait_s: float = 1.0
    longest_wait_s: float = 60.0
    sleep: Callable[[float], None] = time.sleep
    then: str = "run the same command: it resumes"

    def keep_trying(self, attempt: Callable[[], None]) -> None:
        """Run ``attempt`` until it returns. Raises WeightsError when patience ends."""
        failures = 0
        while True:
            try:
                return attempt()
            except PassingFault as fault:
                failures = 1 if fault.progressed else failures + 1
                wait_s = min(self.first_wait_s * 2 ** (failures - 1), self.longest_wait_s)
                wait_s = wait_s if fault.wait_s is None else fault.wait_s
                if failures >= self.attempts or wait_s > self.longest_wait_s:
                    raise self._given_up(fault, failures, wait_s) from fault
            self.sleep(wait_s)

    def _given_up(self, fault: PassingFault, failures: int, wait_s: float) -> WeightsError:
        if failures < self.attempts:
            return WeightsError(f"{fault} and asks for {wait_s:,.0f} seconds.", "Run the same command then.")
        return WeightsError(
            f"{fault} ({failures} attempts).",
            f"Check the network or proxy, then {self.then}.",
        )


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """The wait a server asks for, in seconds or as a date (RFC 9110, 10.2.3)."""
    text = headers.get("retry-after", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
        return max(0.0, (until - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
