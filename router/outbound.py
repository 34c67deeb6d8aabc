"""The way to a cloud and back: look through what leaves, ask, look into the cache, send, put back.

Owns what is done about identifiers and secrets, and that nothing leaves before it. Finding them
is :mod:`router.privacy`'s business, answers given before are :mod:`router.cache`'s, and how a
cloud is called is known to :mod:`router.cloud` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from router.backend import Backend
from router.budget import Purse, dollars
from router.cache.answers import AnswerCache
from router.cache.hit import Hit, Miss, Ticket
from router.cache.key import CacheTarget
from router.call import Call
from router.cloud.target import Target
from router.consent import AskPerson, Consent, Departure, Rule
from router.dispatch import Check
from router.errors import OverBudget, Withheld
from router.privacy import Redaction, counted, preview, redact, restored
from router.reasoning import separate_reasoning
from router.request import ChatRequest, Delta, Event, Finished, Message, ToolCall
from router.sides import LONGEST_ANSWER, There

EXPLANATION = "Marks such as <EMAIL_1> stand for values that are kept back. Repeat them exactly as they are."


@dataclass(frozen=True, slots=True)
class _Agreed:
    values: frozenset[str]
    consent: Consent


class OutboundRoute:
    """The way to one cloud."""

    def __init__(
        self,
        cloud: Backend,
        target: Target,
        there: There,
        purse: Purse,
        rule: Rule,
        ask: AskPerson,
        cache: AnswerCache | None = None,
        profile: str = "",
        check: Check | None = None,
    ) -> None:
        """Without a ``cache`` every question is asked anew; kept is what passes ``check``."""
        self._cloud, self._target = cloud, target
        self._there, self._purse = there, purse
        self._rule, self._ask = rule, ask
        self._cache, self._profile, self._check = cache, profile, check
        self._agreed: dict[str, _Agreed] = {}  # by conversation: one is not asked the same at each turn

    async def stream(self, call: Call) -> AsyncGenerator[Event, None]:
        """Raises Withheld where it must not leave, and what the cloud raises."""
        request, redaction = await self._cleared(call, self.as_asked(call.request))
        ticket: Ticket | None = None
        try:
            if self._cache and not redaction:
                target = CacheTarget(self._profile, self._target.provider, self._target.model)
                found = await self._cache.look_up(request, target, fresh=call.turn.fresh)
                if isinstance(found, Hit):
                    call.avoided_usd, call.cache_guards = found.avoided_usd, found.passed
                    for event in found.events():
                        yield event
                    return
                ticket = found.ticket
                call.cache_guards = _refused(found) or (f"not from the cache: {found.reason}",)
            async with aclosing(self._paid(call, request, redaction)) as events:
                async for event in events:
                    if ticket and isinstance(event, Finished) and self._passes(call):
                        await ticket.commit(call.text, event)
                    yield event
        finally:
            if ticket:
                ticket.abandon()

    def _passes(self, call: Call) -> bool:
        return self._check is None or all(verdict.passed for verdict in self._check(call))

    def as_asked(self, request: ChatRequest) -> ChatRequest:
        """``request`` with everything said that shapes the answer, as it would be sent."""
        sampling = request.sampling
        if self._target.temperature is not None:
            sampling = replace(sampling, temperature=self._target.temperature)
        if sampling.max_tokens is None:
            sampling = replace(sampling, max_tokens=LONGEST_ANSWER)
        return replace(request, sampling=sampling)

    def departure(self, request: ChatRequest) -> Departure:
        """What would leave for ``request``. Raises InvalidRequest for what this cloud cannot do."""
        asked = self.as_asked(request)
        redacted, redaction = redact(asked)
        return self._departure(asked, _explained(redacted) if redaction else redacted, redaction)

    async def _paid(
        self, call: Call, request: ChatRequest, redaction: Redaction
    ) -> AsyncGenerator[Event, None]:
        """The answer, with what it may cost set aside until it has ended."""
        worst_usd = self._there.worst_cost_usd(request) or 0.0
        number = self._purse.reserve(call.turn.conversation, worst_usd)
        if number is None:
            raise OverBudget(f"It could cost {dollars(worst_usd)}, which is more than is left.")
        call.sent = request.sampling
        call.paid_usd = 0.0  # nothing before it began
        try:
            async with aclosing(self._answer(request, redaction)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        event = _honest(event, worst_usd)
                        call.paid_usd = event.cost_usd
                    elif isinstance(event, Delta | ToolCall):
                        said = len((call.reasoning + call.text).encode("utf-8", "replace"))
                        call.paid_usd = self._there.most_usd(request, said)
                    yield event
        finally:
            self._purse.settle(number, call.paid_usd)

    def _answer(self, request: ChatRequest, redaction: Redaction) -> AsyncGenerator[Event, None]:
        answer = self._cloud.stream(request)
        form = request.response_format
        if redaction:
            answer = restored(answer, redaction, as_json=form is not None and form.kind == "json_schema")
        return answer if form else separate_reasoning(answer)

    async def _cleared(self, call: Call, request: ChatRequest) -> tuple[ChatRequest, Redaction]:
        """What may leave. A megabyte takes a moment to look through, hence the thread."""
        redacted, redaction = await asyncio.to_thread(redact, request)
        if not redaction:
            return request, redaction
        redacted = _explained(redacted)
        call.privacy_found, asks = redaction.counts, self._rule == "ask"
        match await self._consent(call, request, redacted, redaction):
            case "send":
                call.privacy_action = "asked" if asks else "sent"
                return request, Redaction()
            case "redact":
                call.privacy_action = "redacted"
                return redacted, redaction
            case _:
                call.privacy_action = "refused" if asks else "kept local"
                raise Withheld(f"It holds {counted(redaction.counts)}, which stay on this machine.")

    async def _consent(
        self, call: Call, request: ChatRequest, redacted: ChatRequest, redaction: Redaction
    ) -> Consent:
        if self._rule != "ask":
            return "keep" if self._rule == "local" else self._rule
        values = frozenset(hidden.value for hidden in redaction.hidden.values())
        agreed = self._agreed.get(call.turn.conversation)
        if agreed and values <= agreed.values and not call.turn.fresh:
            return agreed.consent
        consent = await self._ask(self._departure(request, redacted, redaction))
        if call.turn.conversation:
            self._agreed[call.turn.conversation] = _Agreed(values, consent)
        return consent

    def _departure(self, request: ChatRequest, redacted: ChatRequest, redaction: Redaction) -> Departure:
        model, dialect = self._target.model, self._target.dialect
        return Departure(
            "the simulated cloud" if self._there.simulated else f"{self._target.provider}: {model}",
            counted(redaction.counts),
            preview(request, model, dialect),
            preview(redacted, model, dialect),
        )


def _refused(miss: Miss) -> tuple[str, ...]:
    """What stood against the most similar question."""
    near = miss.nearest
    if near is None:
        return ()
    alike = f"similarity {near.similarity:.3f}, {near.threshold:.3f} needed"
    return (f"entry {near.entry} was not served ({alike}): {near.refused_by}",)


def _honest(finished: Finished, worst_usd: float) -> Finished:
    """A cost above what the longest answer can cost rests on counts that cannot be right: it is unknown."""
    cost_usd = finished.cost_usd
    return replace(finished, cost_usd=None) if cost_usd is not None and cost_usd > worst_usd > 0 else finished


def _explained(request: ChatRequest) -> ChatRequest:
    """With a word to the model about placeholders: one that is changed cannot be put back."""
    first, *rest = request.messages
    if first.role == "system":
        return replace(request, messages=(replace(first, content=f"{first.content}\n\n{EXPLANATION}"), *rest))
    return replace(request, messages=(Message("system", EXPLANATION), first, *rest))
