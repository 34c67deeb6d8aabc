"""What each way of answering would take, as things stand: :class:`router.policy.Side` for both.

Owns how the length of a prompt is come by and how a cloud's pace is learned. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from router.backend import LocalModel
from router.budget import most_prompt_tokens, worst_cost_usd
from router.decision import Estimate
from router.forecaster import PATIENCE_S, Aside, Forecaster
from router.policy import Side
from router.prices import Price
from router.request import ChatRequest, Finished, Forecast, Message, Usage

BYTES_PER_TOKEN = 4  # of English in today's vocabularies; other scripts take more tokens
FITS_ANYWHERE_BYTES = 1024  # as many tokens at most, and no window is smaller
USUAL_ANSWER_TOKENS = 200  # where nobody said how many; half of what a chat's answers take is less
LEARNING_RATE = 0.3  # of a cloud's pace, for each answer: the last handful count


def usual_tokens(request: ChatRequest) -> int:
    """Of the answer, as far as one can know."""
    most = request.sampling.max_tokens
    return USUAL_ANSWER_TOKENS if most is None else min(most, USUAL_ANSWER_TOKENS)


def guessed_tokens(request: ChatRequest) -> int:
    """Of the prompt, from its length."""
    return -(-sum(len(m.content.encode("utf-8", "replace")) for m in request.messages) // BYTES_PER_TOKEN)


class Here:
    """This machine's side: the model's own tokenizer, and the forecast of its speed."""

    def __init__(self, model: LocalModel, forecaster: Forecaster | None) -> None:
        self._model, self._forecaster = model, forecaster
        self._aside = Aside()
        self._computed: tuple[tuple[Message, ...], int] = ((), 0)

    def answered(self, request: ChatRequest, text: str, finished: Finished) -> None:
        """The cache of the engine holds this conversation now."""
        messages = (*request.messages, Message("assistant", text))
        self._computed = (messages, finished.usage.prompt_tokens + finished.usage.completion_tokens)

    async def prompt_tokens(self, request: ChatRequest) -> int:
        """Exact where it may matter. Raises what loading raises.

        Counting needs the model; a short prompt is not worth waiting for that.
        """
        if self._model.info is None and most_prompt_tokens(request.messages) <= FITS_ANYWHERE_BYTES:
            return guessed_tokens(request)
        return await self._model.count_tokens(request.messages)

    async def side(self, request: ChatRequest, prompt_tokens: int, unavailable: str = "") -> Side:
        info = self._model.info
        return Side(
            await self._estimate(request, prompt_tokens),
            prompt_tokens,
            info.window_tokens if info else None,
            unavailable=unavailable,
        )

    async def _estimate(self, request: ChatRequest, prompt_tokens: int) -> Estimate:
        forecast = await self._forecast(request, prompt_tokens)
        if forecast is None or forecast.guessed:  # other machines' speed says nothing of this one's
            return Estimate("local", self._model.model, cost_usd=0.0)
        total_s = forecast.ttft_s + usual_tokens(request) / forecast.decode_tokens_per_s
        return Estimate("local", self._model.model, forecast.ttft_s, total_s, 0.0)

    async def _forecast(self, request: ChatRequest, prompt_tokens: int) -> Forecast | None:
        forecaster, cached = self._forecaster, self._cached(request, prompt_tokens)
        if forecaster is None:
            return None
        return await self._aside.ask(lambda: forecaster.forecast(prompt_tokens, cached), PATIENCE_S)

    def _cached(self, request: ChatRequest, prompt_tokens: int) -> int:
        messages, tokens = self._computed
        goes_on = bool(messages) and request.messages[: len(messages)] == messages
        return min(tokens, prompt_tokens) if goes_on else 0


@dataclass(slots=True)
class There:
    """A cloud's side: its price is known beforehand, its pace from the answers it gave.

    ``unavailable`` says in a sentence why it cannot be asked now, "" where it can.
    """

    model: str
    price: Price | None
    simulated: bool = False
    unavailable: Callable[[], str] = lambda: ""
    window_tokens: int | None = None
    ttft_s: float | None = None
    tokens_per_s: float | None = None

    def answered(self, finished: Finished) -> None:
        """Learn its pace from an answer that it gave."""
        timings = finished.timings
        if timings.ttft_s:
            self.ttft_s = _nearer(self.ttft_s, timings.ttft_s)
        if timings.decode_tokens_per_s:
            self.tokens_per_s = _nearer(self.tokens_per_s, timings.decode_tokens_per_s)

    def side(self, request: ChatRequest, prompt_tokens: int) -> Side:
        usual = usual_tokens(request)
        cost_usd = self.price.cost_usd(Usage(prompt_tokens, 0, usual)) if self.price else None
        total_s = None
        if self.ttft_s is not None and self.tokens_per_s:
            total_s = self.ttft_s + usual / self.tokens_per_s
        return Side(
            Estimate("cloud", self.model, self.ttft_s, total_s, cost_usd, self.simulated),
            prompt_tokens,
            self.window_tokens,
            self.worst_cost_usd(request),
            self.unavailable(),
        )

    def worst_cost_usd(self, request: ChatRequest) -> float | None:
        """None without a price. ``request`` says how long its answer may be."""
        most = request.sampling.max_tokens
        return worst_cost_usd(self.price, most_prompt_tokens(request.messages), most or LONGEST_ANSWER)

    def most_usd(self, request: ChatRequest, answer_bytes: int) -> float | None:
        """What an answer can have cost that broke off: a token holds a byte at least."""
        return worst_cost_usd(self.price, most_prompt_tokens(request.messages), answer_bytes + IN_FLIGHT)


LONGEST_ANSWER = 4096
"""Tokens asked for at most where nobody said how many: without a bound no price can be promised."""
IN_FLIGHT = 64
"""Tokens that a cloud may have written, and charges for, beyond those that arrived."""


def _nearer(known: float | None, seen: float) -> float:
    return seen if known is None else known + LEARNING_RATE * (seen - known)
