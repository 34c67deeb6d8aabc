"""THE path of a request: decide, predict, answer, report; every surface takes it.

Knows which step comes next; what a step decides is that step's own business.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from router.backend import Backend
from router.decision import Decision, Turn
from router.errors import RouterError
from router.forecaster import Forecaster, Prediction
from router.reasoning import separate_reasoning
from router.request import ChatRequest, Event, Failed, Finished, Routed

LOCAL = Turn()


class Dispatch:
    """Answers requests with the one backend there is so far: the local one."""

    def __init__(self, local: Backend, forecaster: Forecaster | None = None) -> None:
        """Without a ``forecaster`` nothing is predicted."""
        self._local = local
        self._prediction = Prediction(forecaster) if forecaster else None

    async def stream(self, request: ChatRequest, turn: Turn = LOCAL) -> AsyncGenerator[Event, None]:
        """Yield Routed first and exactly one Finished or Failed last.

        Never raises a RouterError: it is the Failed event. Closing the stream
        stops the computation.
        """
        yield Routed(self._decide())
        finished = False
        try:
            async with aclosing(self._answer(request)) as events:
                async for event in events:
                    finished = isinstance(event, Finished)
                    yield event
        except RouterError as error:
            if not finished:  # else the answer is whole; the next request meets the trouble itself
                yield Failed(error)

    def _answer(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        answer = self._local.stream(request)
        if self._prediction:
            answer = self._prediction.join(answer)
        # What follows a schema or grammar is taken word for word: a mark in it is data.
        return answer if request.response_format else separate_reasoning(answer)

    def _decide(self) -> Decision:
        return Decision("local", self._local.model, ("This is the only model configured.",))
