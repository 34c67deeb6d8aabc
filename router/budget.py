"""Money that may be spent on a cloud: never more than a person allowed, however many requests are in flight.

Owns the limits, what the dearest outcome of a request would cost, and the reservations of requests that
were sent and are not paid yet. Knows nothing of where expenses are recorded: who builds a Purse tells it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from router.prices import Price
from router.request import Message, Usage

TOKENS_PER_MESSAGE = 16  # marks a template puts around one; ChatML has 5, the longest known 11
ROUNDING_USD = 1e-9  # so that a sum of floats that is the limit does not exceed it


@dataclass(frozen=True, slots=True)
class Budget:
    """None: no limit. ``spent_*`` includes what is reserved for requests in flight.

    ``unknown_price_allowed``: a person accepts that a model's price, and so its cost, is not known.
    """

    day_usd: float | None = None
    conversation_usd: float | None = None
    spent_today_usd: float = 0.0
    spent_conversation_usd: float = 0.0
    unknown_price_allowed: bool = False

    @property
    def is_limited(self) -> bool:
        return self.day_usd is not None or self.conversation_usd is not None

    def objection(self, worst_usd: float) -> str:
        """Why ``worst_usd`` more may not be spent, in words; "" where they may."""
        for name, limit, spent in (
            ("day", self.day_usd, self.spent_today_usd),
            ("conversation", self.conversation_usd, self.spent_conversation_usd),
        ):
            if limit is not None and spent + worst_usd > limit + ROUNDING_USD:
                return (
                    f"It could cost {dollars(worst_usd)}; of the budget of {dollars(limit)} for this {name} "
                    f"{dollars(max(0.0, limit - spent))} are left."
                )
        return ""


def dollars(amount: float) -> str:
    """With as many digits as say something of small amounts."""
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.2g}"


def most_prompt_tokens(messages: Sequence[Message]) -> int:
    """No cloud's tokenizer makes more of them: a token holds a byte at least."""
    texts = (text for m in messages for text in (m.content, m.tool_calls))
    return sum(len(t.encode("utf-8", "replace")) for t in texts) + TOKENS_PER_MESSAGE * len(messages)


def worst_cost_usd(price: Price | None, prompt_tokens: int, answer_tokens: int) -> float | None:
    """Nothing cached and the longest answer; None where no price is known."""
    return price.cost_usd(Usage(prompt_tokens, 0, answer_tokens)) if price else None


@dataclass(slots=True)
class _Reservation:
    conversation: str
    usd: float


class Purse:
    """Reserves before a request is sent and pays when it has ended, so that two at a time cannot overspend.

    For one event loop: nothing here waits, so nothing comes between looking and reserving.
    """

    def __init__(self, limits: Budget, today_usd: float = 0.0) -> None:
        """``today_usd`` is what was spent before, by the record; spent_* of ``limits`` are not read."""
        self._limits = limits
        self._today_usd = today_usd
        self._conversations: dict[str, float] = {}
        self._reserved: dict[int, _Reservation] = {}
        self._last = 0

    def opened(self, conversation: str, spent_usd: float) -> None:
        """What a conversation cost before, by the record; said once, before its first reservation."""
        self._conversations.setdefault(conversation, spent_usd)

    def known(self, today_usd: float, conversation: str, conversation_usd: float) -> None:
        """What the record says, other programs' expenses included; it may lag behind, never run ahead."""
        self._today_usd = max(self._today_usd, today_usd)
        spent = self._conversations.get(conversation, 0.0)
        self._conversations[conversation] = max(spent, conversation_usd)

    def new_day(self) -> None:
        self._today_usd = 0.0

    def budget(self, conversation: str) -> Budget:
        """The limits with what is spent and reserved by now."""
        held = self._reserved.values()
        here = sum(r.usd for r in held if r.conversation == conversation)
        return replace(
            self._limits,
            spent_today_usd=self._today_usd + sum(r.usd for r in held),
            spent_conversation_usd=self._conversations.get(conversation, 0.0) + here,
        )

    def reserve(self, conversation: str, worst_usd: float) -> int | None:
        """A number to settle it by; None where the budget does not hold that much."""
        if self.budget(conversation).objection(worst_usd):
            return None
        self._last += 1
        self._reserved[self._last] = _Reservation(conversation, worst_usd)
        return self._last

    def settle(self, number: int, cost_usd: float | None) -> None:
        """Pay what it cost, 0 where nothing was sent; None, where nobody knows: all that was reserved."""
        held = self._reserved.pop(number)
        paid = held.usd if cost_usd is None else cost_usd
        self._today_usd += paid
        self._conversations[held.conversation] = self._conversations.get(held.conversation, 0.0) + paid
