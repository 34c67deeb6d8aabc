"""Builds what decides who answers, and the way off this machine: when that is first needed, not before.

Owns what is shared by all conversations of a program: the cloud's client, the purse, the
ledger. Offline, nothing of the way is ever imported.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from localchat.errors import UsageError
from localchat.paths import Paths

if TYPE_CHECKING:
    import asyncio

    from localchat.forecast import ModelForecaster
    from localchat.settings import Settings
    from router.backend import Backend, LocalModel
    from router.budget import Purse
    from router.cache.answers import AnswerCache
    from router.call import Call
    from router.chooser import Vote
    from router.cloud.target import Target
    from router.confidence import Calibration
    from router.consent import AskPerson, Consent, Departure, Rule
    from router.decision import Mode, Verdict
    from router.dispatch import Elsewhere
    from router.facts import FactRule
    from router.gate import Gate as JudgingGate
    from router.ledger import LabelName, Ledger
    from router.outbound import OutboundRoute
    from router.recording import Recorder
    from router.request import ChatRequest, ResponseFormat
    from router.sides import There

LABELS_READ = 500  # of the newest answers: what a person said of older ones says less of today


@dataclass(frozen=True, slots=True)
class Remote:
    """The cloud that may answer, as the surfaces speak of it."""

    name: str
    simulated: bool
    departure: Callable[[ChatRequest], Departure]
    spent_text: Callable[[], str] = lambda: ""


class _Closable(Protocol):
    async def close(self) -> None: ...


class Routing:
    """For one program. ``ask_person`` is set by the surface that can ask; without one nobody can."""

    def __init__(self, settings: Settings, paths: Paths, *, keeps: bool = True) -> None:
        """``keeps``: answers are recorded. Imports nothing that is not needed yet. Raises UsageError."""
        self._settings, self._paths, self._keeps = settings, paths, keeps
        self.offline = settings.routing.offline
        self.mode = cast("Mode", settings.routing.mode)
        self.ask_person: AskPerson = _nobody_to_ask
        self._open: list[_Closable] = []
        self._warming: asyncio.Task[str] | None = None
        if settings.routing.rules:
            _ = self._rules  # a wrong file is told at once, not with the first answer

    # -- what every answer passes

    def check(self, call: Call) -> tuple[Verdict, ...]:
        from router.validate import validate

        return validate(call.request, call.text, self._rules, _matches)

    def keep(self, call: Call) -> str:
        return self._recorder(call) if self._recorder else ""

    def trouble(self) -> str:
        return self.ledger.trouble() if self.ledger else ""

    @cached_property
    def ledger(self) -> Ledger | None:
        if not self._keeps:
            return None
        from router.ledger import Ledger

        return Ledger(self._paths.ledger)

    def story(self, entry: str) -> list[str]:
        """An answer's story in plain words, [] where it is not recorded. Reads the disk."""
        from localchat.story import story
        from router.errors import LedgerError

        try:
            return list(story(self.ledger.entry(entry))) if self.ledger else []
        except LedgerError:
            return []

    def label(self, entry: str, label: LabelName) -> None:
        """What a person says of an answer."""
        if self.ledger and entry:
            self.ledger.feedback(entry, label)

    @cached_property
    def _recorder(self) -> Recorder | None:
        if self.ledger is None:
            return None
        from router.recording import Recorder

        keep_text = self._settings.routing.keep_text
        price = None if self.offline or self._is_free else self._target.price
        provider = "" if self.offline else self._target.provider
        return Recorder(self.ledger, price, provider, self._simulated, keep_text)

    @cached_property
    def _rules(self) -> tuple[FactRule, ...]:
        from router.errors import InvalidRules
        from router.facts import parse_rules

        name = self._settings.routing.rules
        if not name:
            return ()
        try:
            file = self._paths.config / Path(name).expanduser()  # beside config.toml, if it is no whole path
            return parse_rules(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise UsageError(f"{file} cannot be read: {why}.", "Correct rules in [routing].") from None
        except InvalidRules as error:
            raise UsageError(error.message, error.next_step) from None

    async def reject(self, entry: int) -> str:
        """Remove a stored answer that was wrong; why that could not be done, or ""."""
        return await self._cache.reject(entry) if self._cache else "there is no cache"

    # -- the other side

    @cached_property
    def remote(self) -> Remote | None:
        if self.offline:
            return None
        target, simulated = self._target, self._simulated
        name = "the simulated cloud" if simulated else f"{target.provider}: {target.model}"
        return Remote(name, simulated, lambda request: self._outbound.departure(request), self._spent_text)

    def elsewhere(self, model: LocalModel, forecaster: ModelForecaster | None) -> Elsewhere:
        """Called with the first question that may leave."""
        from router.chooser import RouteChooser
        from router.dispatch import Elsewhere
        from router.policy import Limits
        from router.sides import Here

        routing = self._settings.routing
        chooser = RouteChooser(
            Here(model, forecaster),
            self._there,
            self._purse,
            Limits(routing.ttft_s, routing.total_s, routing.hard_from, routing.hard_from / 2),
            self._rule,
            self._spent,
            lambda: self._gate(model),
            _vote_of(model),
        )
        if self._cache:  # what the first look-up would wait for is loaded meanwhile
            import asyncio

            self._warming = asyncio.get_running_loop().create_task(self._cache.warm())
        return Elsewhere(chooser, self._outbound)

    async def close(self) -> None:
        if self._warming:
            await self._warming
        while self._open:
            await self._open.pop().close()
        if ledger := self.__dict__.get("ledger"):
            ledger.close()

    @property
    def _simulated(self) -> bool:
        """Out of the box the cloud is one of our own, which asks nobody."""
        cloud = self._settings.cloud
        return not cloud.is_configured or cloud.preset == "localchat"

    @property
    def _is_free(self) -> bool:
        """A simulated cloud without prices of one's own: what a real one would cost nobody knows."""
        price = self._target.price
        return self._simulated and price is not None and price.input_usd_per_mtok == 0

    @property
    def _rule(self) -> Rule:
        return cast("Rule", self._settings.routing.privacy)

    @cached_property
    def _target(self) -> Target:
        from localchat.compose.clouds import cloud_target, simulated_target

        cloud = self._settings.cloud
        return cloud_target(cloud) or simulated_target(cloud)

    @cached_property
    def _cloud(self) -> Backend:
        from localchat.compose.clouds import build_cloud, build_simulated_backend

        configured = self._settings.cloud.is_configured
        cloud = build_cloud(self._settings) if configured else build_simulated_backend(self._settings)
        self._open.append(cloud)
        return cloud

    @cached_property
    def _there(self) -> There:
        from router.sides import There

        return There(self._target.model, self._target.price, self._simulated)

    @cached_property
    def _outbound(self) -> OutboundRoute:
        from router.outbound import OutboundRoute

        async def ask(departure: Departure) -> Consent:
            return await self.ask_person(departure)

        return OutboundRoute(
            self._cloud,
            self._target,
            self._there,
            self._purse,
            self._rule,
            ask,
            self._cache,
            self._settings.routing.profile,
            self.check,
        )

    @cached_property
    def _cache(self) -> AnswerCache | None:
        if not (self._settings.routing.cache and self._keeps):
            return None
        from localchat.compose.answers import build_cache

        cache = build_cache(self._paths)
        self._open.append(cache)
        return cache

    # -- money

    @cached_property
    def _purse(self) -> Purse:
        from router.budget import Budget, Purse

        routing = self._settings.routing
        limits = Budget(routing.daily_usd, routing.conversation_usd, unknown_price_allowed=routing.unpriced)
        return Purse(limits)

    def _spent(self, conversation: str) -> tuple[float, float]:
        """Today's dollars and a conversation's, by the record. It reads the disk. Raises LedgerError."""
        today = self._read.totals(since=_midnight())
        number = int(conversation) if conversation.isdigit() and self._keeps else None
        here = self._read.totals(conversation_id=number) if number is not None else None
        return today.spent_usd + today.simulated_usd, here.spent_usd + here.simulated_usd if here else 0.0

    @cached_property
    def _read(self) -> Ledger:
        """The record as it is on disk: incognito too, where nothing is added to it."""
        from router.ledger import Ledger

        return self.ledger or Ledger(self._paths.ledger)

    def _spent_text(self) -> str:
        from router.errors import LedgerError

        try:
            today_usd = max(self._purse.budget("").spent_today_usd, self._spent("")[0])
        except LedgerError:
            return "spent: unknown"
        return f"${today_usd:,.2f} of ${self._settings.routing.daily_usd:,.2f} today"

    # -- judging

    def _gate(self, model: LocalModel) -> JudgingGate:
        from router.confidence import judge
        from router.gate import Gate

        calibration = self._calibration
        return Gate(lambda scores, text: judge(scores, text, model.model, calibration=calibration))

    @cached_property
    def _calibration(self) -> Calibration:
        """What a person's verdicts teach, as of the start of this program."""
        from router.errors import LedgerError
        from router.feedback import Label, recalibrated

        try:
            entries = self.ledger.entries(limit=LABELS_READ, answered_by="local") if self.ledger else []
        except LedgerError:
            entries = []
        return recalibrated(
            [
                Label(entry.confidence.p_wrong, label.name != "good")
                for entry in entries
                if entry.confidence
                for label in entry.labels[-1:]
            ]
        )


def _vote_of(model: LocalModel) -> Vote | None:
    from localchat.engines.process import EngineModel

    if not isinstance(model, EngineModel):
        return None

    async def vote(request: ChatRequest, count: int) -> Sequence[str]:
        return (await model.vote(request, count)).answers

    return vote


def _matches(wanted: ResponseFormat, text: str) -> bool:
    from localchat.engines.constraint import matches

    return matches(wanted, text)


async def _nobody_to_ask(departure: Departure) -> Consent:
    from router.errors import Refused

    raise Refused(
        f"What would leave holds {departure.found}, and only the chat asks about it.",
        "Say what to do: --privacy redact, --privacy send, --privacy local, or --route local.",
    )


def _midnight() -> float:
    """The beginning of this day in Unix seconds, by the clock on the wall."""
    now = time.localtime()
    return time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1))
