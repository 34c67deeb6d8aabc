"""One request on its way: what has been decided, said and found out so far.

Owns nothing but the collecting. The path fills it, the checks and the ledger read it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from router.consent import PrivacyAction
from router.decision import CacheLabel, Confidence, Decision, Turn, Verdict
from router.errors import RouterError
from router.request import (
    CacheHit,
    ChatRequest,
    Delta,
    Event,
    Finished,
    HandedOff,
    Judged,
    Message,
    Reclassified,
    Sampling,
    ToolCall,
)

if TYPE_CHECKING:  # a chat that stays here has no need of it
    from router.privacy import Kind


@dataclass(slots=True)
class Call:
    """``text`` is the answer without its reasoning. ``privacy_found`` counts what stood in a payload
    that was to leave. ``sent`` are the parameters as they left. ``avoided_usd`` is what an answer
    from the cache cost when it was given; ``paid_usd`` what a cloud is owed, None where none was
    asked or nobody knows. ``cannot_here``: this machine has tried and is not able to answer.

    Instants are those of ``time.monotonic``; ``started_at`` is Unix time.
    """

    request: ChatRequest
    turn: Turn
    decision: Decision | None = None
    text: str = ""
    reasoning: str = ""
    cache: CacheLabel | None = None
    confidence: Confidence | None = None
    hand_offs: tuple[HandedOff, ...] = ()
    tool_calls: int = 0
    verdicts: tuple[Verdict, ...] = ()
    privacy_action: PrivacyAction = ""
    privacy_found: Mapping[Kind, int] = field(default_factory=dict)
    cache_guards: tuple[str, ...] = ()
    sent: Sampling | None = None
    avoided_usd: float | None = None
    paid_usd: float | None = None
    finished: Finished | None = None
    error: RouterError | None = None
    recorded: bool = False
    cannot_here: bool = False
    started_at: float = field(default_factory=time.time)
    started_s: float = field(default_factory=time.monotonic)
    first_text_s: float | None = None
    ended_s: float | None = None

    @property
    def route(self) -> str:
        """Which route answers now; "" before anything was decided."""
        if self.hand_offs:
            return self.hand_offs[-1].target
        return self.decision.route if self.decision else ""

    @property
    def ttft_s(self) -> float | None:
        """From sending to the first text that was shown, hand-offs and judging included."""
        return None if self.first_text_s is None else self.first_text_s - self.started_s

    @property
    def total_s(self) -> float | None:
        return None if self.ended_s is None else self.ended_s - self.started_s

    def take(self, event: Event) -> None:
        match event:
            case Delta(text, kind):
                if self.first_text_s is None and text:
                    self.first_text_s = time.monotonic()
                if kind == "text":
                    self.text += text
                else:
                    self.reasoning += text
            case Reclassified():
                self.reasoning, self.text = self.reasoning + self.text, ""
            case ToolCall():
                self.tool_calls += 1
            case CacheHit(label):
                self.cache = label
            case Judged(confidence):
                self.confidence = confidence
            case HandedOff():
                self.hand_offs += (event,)
            case Finished():
                self.finished, self.ended_s = event, time.monotonic()
            case _:
                pass

    def failed(self, error: RouterError) -> None:
        self.error = error
        self.end()

    def end(self) -> None:
        """Idempotent."""
        if self.ended_s is None:
            self.ended_s = time.monotonic()

    @property
    def can_go_on_here(self) -> bool:
        """Whether this machine can take over from where the answer stands."""
        begun_in_a_form = bool(self.text and self.request.response_format)  # a form cannot be entered midway
        return not (self.cannot_here or begun_in_a_form or self.tool_calls or self.request.tools)

    def going_on(self) -> ChatRequest:
        """The request for what is still to be said: after text that was shown, from its end."""
        if not self.text:
            return self.request
        *before, last = self.request.messages
        if last.role == "assistant":
            begun = replace(last, content=last.content + self.text)
            return replace(self.request, messages=(*before, begun))
        return replace(self.request, messages=(*self.request.messages, Message("assistant", self.text)))
