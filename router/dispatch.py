"""THE path of a request: decide, leave or stay, judge, check, record; every surface takes it.

Knows which step comes next; what a step decides is that step's own business. Without an
:class:`Elsewhere` there is no way off this machine: nothing of it is even constructed, and
while every answer is to come from here it is not either.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from router.backend import Backend
from router.call import Call
from router.decision import Confidence, Decision, Turn, Verdict
from router.errors import (
    BackendCrashed,
    CloudError,
    ContextOverflow,
    ModelUnavailable,
    OverBudget,
    RouterError,
    Withheld,
)
from router.forecaster import Forecaster, Prediction
from router.reasoning import separate_reasoning
from router.request import (
    ChatRequest,
    Event,
    Failed,
    Finished,
    HandedOff,
    Notice,
    Recorded,
    Routed,
    Validated,
)

LOCAL = Turn()
CANNOT_HERE = (ContextOverflow, ModelUnavailable, BackendCrashed)
"""What another model may still be able to do."""


class Gate(Protocol):
    """Holds the beginning of a local answer back until it is judged."""

    @property
    def hands_off(self) -> bool: ...

    def reconsidered(self, confidence: Confidence) -> Iterable[Event]:
        """What may be shown after a second opinion on an answer that was to be handed off."""
        ...

    def feed(self, event: Event) -> Iterable[Event]:
        """What may be shown after ``event``, in order, Judged among it; nothing while it is held back."""
        ...


class Outbound(Protocol):
    """The way to a cloud and back."""

    def stream(self, call: Call) -> AsyncGenerator[Event, None]:
        """As a :class:`router.backend.Backend`. Raises Withheld too."""
        ...


class Chooser(Protocol):
    """Says which way a request goes."""

    async def choose(self, request: ChatRequest, turn: Turn) -> Decision:
        """Raises a RouterError where neither way can answer."""
        ...

    def gate(self, call: Call) -> Gate | None:
        """What judges the beginning of a local answer; None: nobody does."""
        ...

    async def second_opinion(self, call: Call, gate: Gate) -> Confidence | None:
        """On an answer that was to be handed off; None where there is none to be had. Never raises."""
        ...

    def may_leave(self, call: Call) -> bool:
        """Whether an answer begun here may be handed off."""
        ...

    def ended(self, call: Call) -> None:
        """Learn from how a request went."""
        ...


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The other side: the way there, and who says when it is taken."""

    chooser: Chooser
    outbound: Outbound


Check = Callable[[Call], tuple[Verdict, ...]]


class Book(Protocol):
    """Where calls are recorded. Never waits, never raises."""

    def keep(self, call: Call) -> str:
        """The name under which its story is kept; "" where none is."""
        ...

    def trouble(self) -> str:
        """Why calls cannot be written down, said once; "" where they can."""
        ...


class Dispatch:
    """Answers requests on this machine or elsewhere."""

    def __init__(
        self,
        local: Backend,
        forecaster: Forecaster | None = None,
        elsewhere: Callable[[], Elsewhere] | None = None,
        check: Check | None = None,
        book: Book | None = None,
    ) -> None:
        """Each part that is None is a step left out. ``elsewhere`` is called when it is first needed."""
        self._local = local
        self._prediction = Prediction(forecaster) if forecaster else None
        self._open_elsewhere = elsewhere
        self._elsewhere: Elsewhere | None = None
        self._check, self._book = check, book

    async def stream(self, request: ChatRequest, turn: Turn = LOCAL) -> AsyncGenerator[Event, None]:
        """Yield Routed first and exactly one Finished or Failed last.

        Never raises a RouterError: it is the Failed event. Closing the stream
        stops the computation.
        """
        call = Call(request, turn)
        try:
            async with aclosing(self._answered(call)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        for closing in self._closed(call, event):
                            yield closing
                    yield event
        except RouterError as error:
            if not call.finished:  # else the answer is whole; the next request meets the trouble itself
                call.failed(error)
                yield Failed(error)
        finally:
            self._end(call)

    async def decide(self, request: ChatRequest, turn: Turn) -> Decision:
        """Which way it would go, without going. Raises a RouterError where there is none."""
        if self._open_elsewhere is None:
            return Decision("local", self._local.model, ("Offline: nothing can leave this machine.",))
        if turn.pinned:
            return Decision("local", self._local.model, ("This conversation is kept on this machine.",))
        if turn.mode == "local":
            return Decision("local", self._local.model, ("Every answer is to come from this machine.",))
        if self._elsewhere is None:
            self._elsewhere = self._open_elsewhere()
        return await self._chooser.choose(request, turn)

    async def _answered(self, call: Call) -> AsyncGenerator[Event, None]:
        call.decision = await self.decide(call.request, call.turn)
        yield Routed(call.decision)
        answer = self._there(call) if call.decision.route == "cloud" else self._here(call)
        async with aclosing(answer) as events:
            async for event in events:
                call.take(event)
                yield event

    # -- on this machine

    async def _here(self, call: Call) -> AsyncGenerator[Event, None]:
        """A local answer; what this machine cannot do, or begins unsurely, goes on elsewhere."""
        gate = self._gate(call)
        try:
            async with aclosing(self._local_answer(call)) as events:
                async for event in events:
                    for shown in gate.feed(event) if gate else (event,):
                        yield shown
                    if gate and gate.hands_off:
                        break
                else:
                    return
            assert gate
            if opinion := await self._chooser.second_opinion(call, gate):
                for shown in gate.reconsidered(opinion):
                    yield shown
                if not opinion.is_low:
                    return
            why = f"After {call.confidence.tokens if call.confidence else 0} tokens it was unsure of itself."
        except CANNOT_HERE as error:
            call.cannot_here = True
            if call.text or not self._may_hand_off(call):
                raise
            why = error.message
        yield HandedOff("local", "cloud", why)
        async with aclosing(self._there(call)) as events:
            async for event in events:
                yield event

    def _local_answer(self, call: Call) -> AsyncGenerator[Event, None]:
        answer = self._local.stream(call.going_on())
        if self._prediction:
            answer = self._prediction.join(answer)
        # What follows a schema or grammar is taken word for word: a mark in it is data.
        return answer if call.request.response_format else separate_reasoning(answer)

    def _gate(self, call: Call) -> Gate | None:
        if self._elsewhere is None or not _in_question(call.turn):
            return None
        return self._chooser.gate(call)

    @property
    def _chooser(self) -> Chooser:
        assert self._elsewhere
        return self._elsewhere.chooser

    def _may_hand_off(self, call: Call) -> bool:
        if self._elsewhere is None or not _in_question(call.turn) or call.hand_offs:
            return False
        return self._chooser.may_leave(call)

    # -- elsewhere

    async def _there(self, call: Call) -> AsyncGenerator[Event, None]:
        """The cloud's answer; where it fails, or may not be asked, this machine goes on."""
        assert self._elsewhere
        try:
            async with aclosing(self._elsewhere.outbound.stream(call)) as events:
                async for event in events:
                    yield event
            return
        except (CloudError, Withheld, OverBudget) as error:
            if not call.can_go_on_here:
                raise
            failure = error
        yield HandedOff("cloud", "local", str(failure), kept=len(call.text))
        async with aclosing(self._local_answer(call)) as events:
            async for event in events:
                yield event

    # -- when it has ended

    def _closed(self, call: Call, finished: Finished) -> list[Event]:
        """What comes before the end."""
        events: list[Event] = []
        if self._check:
            call.verdicts = self._check(call)
            events.append(Validated(call.verdicts))
        if entry := self._kept(call):
            events.append(Recorded(entry))
        if self._book and (trouble := self._book.trouble()):
            events.append(Notice(f"Answers are not being recorded. {trouble}"))
        return events

    def _kept(self, call: Call) -> str:
        if self._book is None or call.recorded:
            return ""
        call.recorded = True
        return self._book.keep(call)

    def _end(self, call: Call) -> None:
        """Stopped and failed requests are recorded too."""
        call.end()
        self._kept(call)
        if self._elsewhere:
            self._elsewhere.chooser.ended(call)


def _in_question(turn: Turn) -> bool:
    """Whether the answer may come from elsewhere."""
    return turn.mode != "local" and not turn.pinned
