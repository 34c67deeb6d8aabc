"""Another side for the path to try: a chooser that is told what to choose, and a scripted cloud."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field

from router.call import Call
from router.decision import Confidence, Decision, Turn
from router.errors import RouterError
from router.request import ChatRequest, Delta, Event, Finished, Judged
from router.scripted import ScriptedBackend

UNSURE = Confidence(0.9, 0.5, 2, True)


@dataclass
class TwoTokens:
    """Holds two texts back, then does as it was told."""

    hands_off: bool = False
    confidence: Confidence | None = None
    doubts: bool = True
    _held: list[Event] = field(default_factory=list)

    def reconsidered(self, confidence: Confidence) -> Iterable[Event]:
        self.confidence, self.hands_off = confidence, confidence.is_low
        return (Judged(confidence), *(() if self.hands_off else self._held))

    def feed(self, event: Event) -> Iterable[Event]:
        if self.confidence:
            return (event,)
        self._held.append(event)
        if sum(isinstance(e, Delta) for e in self._held) < 2 and not isinstance(event, Finished):
            return ()
        self.confidence, self.hands_off = UNSURE, self.doubts
        return (Judged(UNSURE), *(() if self.doubts else self._held))


@dataclass
class Choosing:
    route: str = "local"
    doubts: bool | None = None
    leave: bool = True
    opinion: Confidence | None = None
    calls: list[Call] = field(default_factory=list)

    async def choose(self, request: ChatRequest, turn: Turn) -> Decision:
        return Decision("cloud" if self.route == "cloud" else "local", "m")

    def gate(self, call: Call) -> TwoTokens | None:
        return None if self.doubts is None else TwoTokens(doubts=self.doubts)

    async def second_opinion(self, call: Call, gate: object) -> Confidence | None:
        return self.opinion

    def may_leave(self, call: Call) -> bool:
        return self.leave

    def ended(self, call: Call) -> None:
        self.calls.append(call)


class Out:
    def __init__(self, *script: str | Event | RouterError) -> None:
        self.backend = ScriptedBackend(script, model="far")

    def stream(self, call: Call) -> AsyncGenerator[Event, None]:
        return self.backend.stream(call.request)


@dataclass
class Written:
    """A book; ``troubles`` are told one at each answer."""

    troubles: list[str] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def keep(self, call: Call) -> str:
        self.calls.append(call)
        return "7f3"

    def trouble(self) -> str:
        return self.troubles.pop(0) if self.troubles else ""
