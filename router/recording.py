"""A call's story as an entry of the ledger.

Owns what is written down of a call. How it is kept is :mod:`router.ledger`'s business.
"""

from __future__ import annotations

from dataclasses import dataclass

from router.call import Call
from router.ledger import Entry, Ledger, Source, new_id, payload_bytes, prompt_sha256
from router.prices import Price


@dataclass(frozen=True, slots=True)
class Recorder:
    """Says what of a call is kept, and keeps it.

    ``price`` is what the configured cloud would have charged, None where nobody knows; ``provider``
    its name.
    """

    ledger: Ledger
    price: Price | None
    provider: str
    simulated: bool = False
    keep_text: bool = False

    def __call__(self, call: Call) -> str:
        return self.ledger.record(self.entry(call))

    def entry(self, call: Call) -> Entry:
        decision, finished, answered_by = call.decision, call.finished, _source(call)
        return Entry(
            id=new_id(),
            started_at=call.started_at,
            mode=call.turn.mode,
            route=decision.route if decision else "local",
            answered_by=answered_by,
            model=_model(call),
            outcome=_outcome(call),
            conversation_id=int(call.turn.conversation) if call.turn.conversation.isdigit() else None,
            provider=self.provider if answered_by != "local" else "",
            reasons=decision.reasons if decision else (),
            alternatives=decision.alternatives if decision else (),
            difficulty=decision.difficulty if decision else None,
            expected=decision.expected if decision else None,
            parameters=call.sent or call.request.sampling,
            prompt_sha256=prompt_sha256(call.request),
            payload_bytes=payload_bytes(call.request),
            usage=finished.usage if finished else None,
            usage_is_estimate=finished.usage_is_estimate if finished else False,
            ttft_s=call.ttft_s,
            total_s=call.total_s,
            cost_usd=self._cost_usd(call),
            avoided_usd=self._avoided_usd(call, answered_by),
            verdicts=call.verdicts,
            confidence=call.confidence,
            cache=call.cache,
            cache_guards=call.cache_guards,
            privacy_action=call.privacy_action,
            privacy_found=call.privacy_found,
            hand_offs=call.hand_offs,
            sent=call.sent is not None,
            simulated_cloud=self.simulated,
            simulated=finished.simulated if finished else None,
            prompt=call.request.messages[-1].content if self.keep_text and call.request.messages else "",
            answer=call.text if self.keep_text else "",
        )

    def _cost_usd(self, call: Call) -> float | None:
        """An answer that broke off there, and went on here, was charged for too."""
        return 0.0 if call.sent is None else call.paid_usd

    def _avoided_usd(self, call: Call, answered_by: Source) -> float | None:
        if answered_by == "cache":
            return call.avoided_usd
        price = self.price if answered_by == "local" and call.finished else None
        return price.cost_usd(call.finished.usage) if price and call.finished else None


def _source(call: Call) -> Source:
    if call.cache:
        return "cache"
    return "cloud" if call.route == "cloud" else "local"


def _model(call: Call) -> str:
    """Who answered, or was about to."""
    if call.finished and call.finished.model:
        return call.finished.model
    estimate = call.decision.estimate_of(call.route) if call.decision else None
    return estimate.model if estimate else call.decision.model if call.decision else ""


def _outcome(call: Call) -> str:
    if call.finished:
        return call.finished.finish_reason
    return type(call.error).__name__ if call.error else "cancelled"
