"""What sending would cost, said while a message is written.

Owns how a prompt's tokens are guessed from its length, and the words. The guess is
marked as one; the exact counts come with the answer.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localchat.card_text import estimate_text
from localchat.tui.figures import band_text, seconds_text
from localchat.tui.safe_text import one_line
from router.decision import Decision
from router.forecaster import PATIENCE_S, Aside
from router.request import Forecast

if TYPE_CHECKING:
    from localchat.tui.chat import ChatScreen

BYTES_PER_TOKEN = 4  # of English in the vocabularies of today's models; other scripts take more tokens
TEMPLATE_TOKENS = 10  # roles and marks around a message
CLOCK_AFTER_S = 60  # a longer reply's end is told by the clock
NOT_MEASURED = "speed not measured yet: localchat calibrate"


@dataclass(frozen=True, slots=True)
class Typed:
    """What would be sent. ``past_tokens`` lie before it, of which ``cached_tokens`` need no computing."""

    nbytes: int
    past_tokens: int = 0
    cached_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        return self.past_tokens + TEMPLATE_TOKENS + -(-self.nbytes // BYTES_PER_TOKEN)


class Estimate:
    """Asks the forecaster when typing pauses, beside the program: no key waits for it."""

    def __init__(self, chat: ChatScreen) -> None:
        self._chat = chat
        self._aside = Aside()

    def typing_paused(self, typed: Typed) -> None:
        """``typed`` of no bytes: there is nothing to be sent."""
        if typed.nbytes and (self._chat.program.forecaster or self._chat.routes.in_question):
            self._chat.run_worker(self._show(typed), group="estimate", exclusive=True)
        else:
            self._chat.turns.show_estimate(())

    async def prepare(self) -> None:
        """What takes time the first time is done before anybody waits for it."""
        if forecaster := self._chat.program.forecaster:
            await self._aside.ask(forecaster.prepare)

    async def _show(self, typed: Typed) -> None:
        if self._chat.turns.running:
            return
        decision = await self._chat.routes.foreseen()
        words = route_words(decision) if decision else ()
        if decision is None or decision.route == "local":
            words += await self._local(typed)
        if not self._chat.turns.running:
            self._chat.turns.show_estimate(words)

    async def _local(self, typed: Typed) -> tuple[str, ...]:
        forecaster = self._chat.program.forecaster
        if forecaster is None:
            return ()
        forecast = await self._aside.ask(
            lambda: forecaster.forecast(typed.prompt_tokens, typed.cached_tokens), PATIENCE_S
        )
        return expected(forecast, self._chat.session.sampling.max_tokens) if forecast else ()


def route_words(decision: Decision) -> tuple[str, ...]:
    """``→ cloud``, its time and price, and why: the most important first."""
    cost = estimate_text(decision.expected) if decision.expected and decision.route == "cloud" else ""
    hard = f"difficulty {decision.difficulty:.0%}" if decision.difficulty is not None else ""
    why = one_line(decision.reasons[0], 60) if decision.route == "cloud" and decision.reasons else ""
    return tuple(filter(None, (f"→ {decision.route}", cost, hard, why)))


def expected(
    forecast: Forecast, max_tokens: int | None = None, now_s: float | None = None
) -> tuple[str, ...]:
    """First word, speed, and the end where it is bounded: ``done in ≈ 5 s``; the most important first.

    A guess from other processors is not worth its figures: the first reply measures this one.
    """
    if forecast.guessed:
        return (NOT_MEASURED,)
    first = f"≈ {seconds_text(forecast.ttft_s)} to the first word"
    speed = f"{band_text(forecast.low, forecast.high)} tokens/s"
    if max_tokens is None:
        return first, speed
    whole_s = forecast.ttft_s + max_tokens / forecast.decode_tokens_per_s
    if whole_s < CLOCK_AFTER_S:
        return first, speed, f"done in ≈ {seconds_text(whole_s)}"
    end = time.localtime((time.time() if now_s is None else now_s) + whole_s)
    return first, speed, f"done by ≈ {time.strftime('%H:%M', end)}"
