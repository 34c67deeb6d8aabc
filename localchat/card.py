"""Where an answer came from, as it is kept beside it and told to a person.

Owns what is collected from a reply's events, and its form in the store. Does not know
screens; the words for a person are in :mod:`localchat.card_text`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, TypeVar

from router.decision import Alternative, CacheLabel, Confidence, Decision, Estimate, Verdict
from router.request import (
    CacheHit,
    Finished,
    HandedOff,
    Judged,
    Recorded,
    Routed,
    Simulated,
    Validated,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Card:
    """``decision`` is the first one; after each of ``hand_offs`` another route went on.

    ``cost_usd`` None: not known. ``entry`` names it in the ledger, "" where none is kept.
    """

    decision: Decision
    cache: CacheLabel | None = None
    confidence: Confidence | None = None
    hand_offs: tuple[HandedOff, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    simulated: Simulated | None = None
    cost_usd: float | None = 0.0
    entry: str = ""

    @property
    def route(self) -> str:
        """Which route the answer came by in the end."""
        return self.hand_offs[-1].target if self.hand_offs else self.decision.route

    @property
    def is_simulated(self) -> bool:
        """Known from the decision on, and so of answers that never ended too."""
        estimate = self.decision.estimate_of("cloud")
        return self.route == "cloud" and estimate is not None and estimate.simulated

    @property
    def failed_checks(self) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)


def with_event(card: Card | None, event: object) -> Card | None:
    """What is known after ``event`` of a turn; None before anything was decided."""
    if isinstance(event, Routed):
        return Card(event.decision)
    if card is None:
        return None
    match event:
        case CacheHit(label):
            return replace(card, cache=label)
        case Judged(confidence):
            return replace(card, confidence=confidence)
        case HandedOff():
            return replace(card, hand_offs=(*card.hand_offs, event))
        case Validated(verdicts):
            return replace(card, verdicts=verdicts)
        case Recorded(entry):
            return replace(card, entry=entry)
        case Finished():
            return replace(card, simulated=event.simulated, cost_usd=event.cost_usd)
        case _:
            return card


def to_json(card: Card) -> str:
    return json.dumps(asdict(card))  # in ASCII: lone surrogates stay what they are


def from_json(text: str) -> Card | None:
    """None for what is no card. Fields of another version of this program are left aside."""
    try:
        stored = json.loads(text)
        decision = stored["decision"]
        return Card(
            replace(
                _read(Decision, decision),
                reasons=tuple(decision["reasons"]),
                alternatives=tuple(
                    Alternative(_read(Estimate, each["estimate"]), each["why_not"])
                    for each in decision["alternatives"]
                ),
                expected=_optional(Estimate, decision["expected"]),
            ),
            cache=_optional(CacheLabel, stored["cache"]),
            confidence=_optional(Confidence, stored["confidence"]),
            hand_offs=tuple(_read(HandedOff, each) for each in stored["hand_offs"]),
            verdicts=tuple(_read(Verdict, verdict) for verdict in stored["verdicts"]),
            simulated=_optional(Simulated, stored["simulated"]),
            cost_usd=stored["cost_usd"],
            entry=stored["entry"],
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _optional(kind: type[T], stored: Mapping[str, Any] | None) -> T | None:
    return None if stored is None else _read(kind, stored)


def _read(kind: type[T], stored: Mapping[str, Any]) -> T:
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]  # each kind is a dataclass
    return kind(**{name: value for name, value in stored.items() if name in known})
