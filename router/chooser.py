"""Asks everyone who knows something of a request, and lets the policy decide.

Owns what is remembered between requests: where a conversation stands, and what was spent. The
rules are :mod:`router.policy`'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date

from router.budget import Budget, Purse
from router.call import Call
from router.confidence import agreement, with_agreement
from router.consent import Rule
from router.decision import Confidence, Decision, Route, Turn
from router.difficulty import difficulty
from router.dispatch import Gate
from router.errors import LedgerError, ModelUnavailable, Refused, RouterError
from router.gate import Gate as JudgingGate
from router.policy import Asked, Limits, Side, decide
from router.privacy import scan
from router.request import ChatRequest
from router.sides import USUAL_ANSWER_TOKENS, Here, There, guessed_tokens

Vote = Callable[[ChatRequest, int], Awaitable[Sequence[str]]]
"""So many short answers to one request, drawn side by side."""
VOTES = 4  # cost about the steps of one: benchmarks/bench_votes.py
VOTE_TEMPERATURE = (
    0.7  # as in self-consistency (https://arxiv.org/abs/2203.11171): a greedy model agrees with itself
)
VOTE_TOKENS = 24  # a little more than a short answer has, so that one that rambles is seen to differ


@dataclass(slots=True)
class RouteChooser:
    """Implements :class:`router.dispatch.Chooser`. ``new_gate`` None: beginnings are not judged.

    ``spent`` says what the record knows of: dollars of today, and of a conversation. It may block.
    """

    here: Here
    there: There
    purse: Purse
    limits: Limits
    privacy: Rule
    spent: Callable[[str], tuple[float, float]] = lambda conversation: (0.0, 0.0)
    new_gate: Callable[[], JudgingGate] | None = None
    vote: Vote | None = None
    _day: date = field(default_factory=date.today)
    _routes: dict[str, Route] = field(default_factory=dict)  # by conversation
    _open: dict[int, bool] = field(default_factory=dict)  # whether a decision may still be revised, by id

    async def choose(self, request: ChatRequest, turn: Turn) -> Decision:
        """Raises Refused where the cloud is wanted and cannot be had."""
        asked, (local, cloud) = await self._asked(request, turn), await self._sides(request, turn)
        try:
            budget = await self._budget(turn.conversation)
        except LedgerError as error:  # a limit that cannot be kept is no licence to spend
            cloud, budget = replace(cloud, unavailable=f"What was spent is not known: {error}"), Budget()
        decision = decide(asked, local, cloud, budget, turn.mode, self.limits)
        if decision.route == "cloud" and decision.refusal:
            raise Refused(decision.refusal)
        there = decide(asked, local, cloud, budget, "cloud", self.limits)
        self._open[id(decision)] = there.route == "cloud" and not there.refusal
        return decision

    def gate(self, call: Call) -> JudgingGate | None:
        """Only where the question is not clearly easy: judging costs time to the first word."""
        decision = call.decision
        doubtful = decision is not None and (decision.difficulty or 0.0) >= self.limits.easy
        judged = call.turn.mode == "auto" and doubtful and self.may_leave(call)
        return self.new_gate() if judged and self.new_gate else None

    async def second_opinion(self, call: Call, gate: Gate) -> Confidence | None:
        """A short answer is drawn several times at once; how far those agree counts beside the scores."""
        assert isinstance(gate, JudgingGate)
        if self.vote is None or not gate.is_short or gate.confidence is None:
            return None
        sampling = replace(
            call.request.sampling, temperature=VOTE_TEMPERATURE, max_tokens=VOTE_TOKENS, seed=None
        )
        try:
            answers = await self.vote(replace(call.request, sampling=sampling), VOTES)
        except RouterError:
            return None
        return with_agreement(gate.confidence, agreement(answers), len(answers))

    def may_leave(self, call: Call) -> bool:
        return self._open.get(id(call.decision), False)

    def ended(self, call: Call) -> None:
        self._open.pop(id(call.decision), None)
        finished = call.finished
        if finished is None or not call.route:
            return
        if call.route == "cloud":
            self._remember(call, "cloud")
            if call.cache is None:
                self.there.answered(finished)
        else:
            self._remember(call, "local")
            self.here.answered(call.request, call.text, finished)

    def _remember(self, call: Call, route: Route) -> None:
        if call.turn.conversation:
            self._routes[call.turn.conversation] = route

    async def _budget(self, conversation: str) -> Budget:
        if self._day != (today := date.today()):
            self._day = today
            self.purse.new_day()
        today_usd, conversation_usd = await asyncio.to_thread(self.spent, conversation)
        self.purse.known(today_usd, conversation, conversation_usd)
        return self.purse.budget(conversation)

    async def _asked(self, request: ChatRequest, turn: Turn) -> Asked:
        private = ""
        if self.privacy == "local":
            findings = await asyncio.to_thread(scan, request)
            private = f"It holds {findings}, which stay on this machine." if findings else ""
        question = next((m.content for m in reversed(request.messages) if m.role == "user"), "")
        return Asked(
            difficulty(question),
            request.sampling.max_tokens or USUAL_ANSWER_TOKENS,
            private,
            turn.pinned,
            self._routes.get(turn.conversation),
        )

    async def _sides(self, request: ChatRequest, turn: Turn) -> tuple[Side, Side]:
        trouble, tokens = "", guessed_tokens(request)
        try:
            if turn.mode != "cloud":  # there it is not worth loading the model here
                tokens = await self.here.prompt_tokens(request)
        except ModelUnavailable as error:
            trouble = error.message
        return await self.here.side(request, tokens, trouble), self.there.side(request, tokens)
