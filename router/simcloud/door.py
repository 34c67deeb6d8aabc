"""Who may come in, and how often: keys and a rate limit, without I/O.

Owns comparing keys and the budget of requests of each caller. The time is an argument.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

from router.errors import CloudBusy, CloudRefused

MOST_CALLERS = 1000


@dataclass(slots=True)
class Door:
    """``keys`` empty: anybody may. ``per_minute`` None: as often as they like.

    A caller may save up a minute's requests; callers are told apart by their key, else by their address.
    """

    keys: tuple[str, ...] = ()
    per_minute: int | None = None
    _budgets: dict[bytes, tuple[float, float]] = field(default_factory=dict)  # requests left, at which time

    def enter(self, authorization: str, address: str, now_s: float) -> None:
        """Raises CloudRefused or CloudBusy."""
        self.check(authorization)
        if self.per_minute is None:
            return
        caller = hashlib.sha256((authorization if self.keys else address).encode()).digest()
        per_s = self.per_minute / 60
        left, then_s = self._budgets.pop(caller, (float(self.per_minute), now_s))
        left = min(self.per_minute, left + (now_s - then_s) * per_s)
        self._budgets[caller] = (left - 1 if left >= 1 else left, now_s)
        if len(self._budgets) > MOST_CALLERS:
            del self._budgets[next(iter(self._budgets))]  # who came longest ago
        if left < 1:
            raise CloudBusy(
                f"More than {self.per_minute} requests a minute.", "Wait.", retry_after_s=(1 - left) / per_s
            )

    def check(self, authorization: str) -> None:
        """Raises CloudRefused."""
        scheme, _, key = authorization.partition(" ")
        given = key.strip().encode() if scheme.lower() == "bearer" else b""
        matches = [hmac.compare_digest(given, known.encode()) for known in self.keys]  # all of them
        if self.keys and not any(matches):
            what = "The key is wrong." if given else "A key is needed."
            raise CloudRefused(what, "Send it as `Authorization: Bearer KEY`.", status=401)
