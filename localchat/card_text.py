"""The words for where an answer came from; every surface says them alike.

Pure. Text that came from outside (a model's name, a stored question) is passed through
as it is: making it safe to show is the surface's business.
"""

from __future__ import annotations

from collections.abc import Iterator

from localchat.card import Card
from localchat.words import money
from router.decision import Alternative, CacheLabel, Decision, Estimate
from router.request import HandedOff, Simulated

DAY_S = 86_400.0


def age_text(seconds: float) -> str:
    """``3 min``, rounded down to the largest unit that fits."""
    for unit_s, name in ((DAY_S, "day"), (3600.0, "h"), (60.0, "min")):
        if seconds >= unit_s:
            count = int(seconds // unit_s)
            return f"{count} {name}{'s' if name == 'day' and count > 1 else ''}"
    return f"{max(0, int(seconds))} s"


def cost_text(usd: float | None) -> str:
    return "cost unknown" if usd is None else money(usd)


def estimate_text(estimate: Estimate) -> str:
    """``≈ 3.4 s, $0.0012``: what is known of it."""
    parts = []
    if estimate.total_s is not None:
        digits = 1 if estimate.total_s < 10 else 0
        parts.append(f"≈ {estimate.total_s:,.{digits}f} s")
    if estimate.route == "cloud":
        parts.append(cost_text(estimate.cost_usd))
    return ", ".join(parts)


def simulated_text(simulated: Simulated) -> str:
    """The watermark of an answer whose times were simulated."""
    parts = [
        f"SIMULATED {simulated.gpu}",
        f"batch {simulated.batch_size}",
        f"queue {simulated.queued_requests}",
    ]
    if simulated.text_model:
        part = ", which read a part of it" if simulated.partial else ""
        parts.append(f"words by {simulated.text_model}{part}")
    if simulated.late_tokens:
        parts.append(f"{simulated.late_tokens} token{'s' if simulated.late_tokens > 1 else ''} late")
    return ", ".join(parts)


def cache_text(label: CacheLabel) -> str:
    """``cached 3 min ago for “...” (similarity 0.97, threshold 0.93)``."""
    if label.tier == "exact":
        return f"cached {age_text(label.age_s)} ago, the same question"
    return (
        f"cached {age_text(label.age_s)} ago for “{label.question}” "
        f"(similarity {label.similarity:.3f}, threshold {label.threshold:.3f})"
    )


def decision_text(decision: Decision) -> str:
    """``local: It is easy. Cloud instead (≈ 1.2 s, $0.0004): It is not needed.``"""
    others = (alternative_text(each, decision) for each in decision.alternatives)
    return " ".join([f"{decision.route}:", *decision.reasons, *filter(None, others)])


def alternative_text(alternative: Alternative, decision: Decision) -> str:
    """What the other way would have taken, and why it was not taken where that is not said already."""
    estimate, cost = alternative.estimate, estimate_text(alternative.estimate)
    why = "" if alternative.why_not in decision.reasons else alternative.why_not
    if not cost and not why:
        return ""
    name = estimate.route.capitalize()
    if not why:
        return f"{name} instead: {cost}."
    return f"{name} instead{f' ({cost})' if cost else ''}: {why}"


def marks(card: Card) -> Iterator[str]:
    """The few marks that belong beside an answer's figures, the most important first."""
    if card.route == "cloud":
        yield "cloud"
    if card.simulated:
        yield simulated_text(card.simulated)
    elif card.is_simulated:
        yield "SIMULATED"
    if card.cache:
        yield "from the cache"
    if card.failed_checks:
        yield f"failed check: {card.failed_checks[0].validator}"
    if card.route == "cloud" and not card.cache:
        yield cost_text(card.cost_usd)


def summary(card: Card) -> str:
    """The story in one line: the last thing that decided, then what else there was."""
    if card.hand_offs:
        return " ".join(map(_hand_off_text, card.hand_offs))
    if card.cache:
        return cache_text(card.cache)
    return decision_text(card.decision)


def _hand_off_text(handed: HandedOff) -> str:
    kept = f" after {handed.kept:,} characters, which stay" if handed.kept else ""
    return f"Handed off from {handed.source} to {handed.target}{kept}: {handed.why}"


def is_plain(card: Card) -> bool:
    """Nothing but this machine was in question: there is no story to tell."""
    return card.route == "local" and not (card.hand_offs or card.decision.alternatives or card.confidence)
