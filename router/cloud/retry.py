"""Whether a failed request is sent again, and after how long.

Pure: time and chance are arguments. Does not know HTTP; an error says itself whether it may pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from router.errors import CloudError, RouterError

MAX_WAIT_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Retries:
    """Doubling waits with jitter, as the OpenAI SDK's: two more tries, 0.5 to 8 s.

    https://github.com/openai/openai-python/blob/main/src/openai/_constants.py
    """

    attempts: int = 3
    first_wait_s: float = 0.5
    longest_wait_s: float = 8.0

    def wait_s(self, error: RouterError, failures: int, left_s: float, chance: float) -> float | None:
        """How long to wait after so many ``failures``; None: give up.

        ``left_s`` until the deadline of all tries together, ``chance`` from 0 to 1. A server
        that asks for more time than there is left is not asked again in vain.
        """
        if not (isinstance(error, CloudError) and error.may_pass) or failures >= self.attempts:
            return None
        doubled_s = min(self.first_wait_s * 2 ** (failures - 1), self.longest_wait_s)
        wait_s = doubled_s * (1 - 0.5 * chance)  # half of it by chance, so that clients spread
        if error.retry_after_s is not None:
            wait_s = error.retry_after_s + self.first_wait_s * chance
        return wait_s if wait_s < left_s else None


def retry_after_s(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The wait a server asks for, in seconds or as a date (RFC 9110, 10.2.3), or in OpenAI's milliseconds."""
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return min(milliseconds / 1000, MAX_WAIT_S)
    text = headers.get("retry-after", "").strip()
    if (seconds := _number(text)) is not None:
        return min(seconds, MAX_WAIT_S)
    try:
        until = parsedate_to_datetime(text)
        left_s = (until - (now or datetime.now(UTC))).total_seconds()
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(0.0, left_s), MAX_WAIT_S)


def _number(text: str | None) -> float | None:
    text = (text or "").strip()
    plain = len(text) < 12 and text.isascii() and text.replace(".", "", 1).isdigit()
    return float(text) if plain else None
