"""Holds back the beginning of a local answer until it has been judged: shown, or handed off unseen.

Sans I/O: events in, events out. Owns how long it waits; does not know how an answer is judged or who goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from router.decision import Confidence
from router.request import Delta, Event, Failed, Finished, Judged, Reclassified, TokenScore, ToolCall

LEAST_TOKENS, MOST_TOKENS = 16, 32
"""0.6 to 1.2 s at 27 tokens/s, which a person waits."""
SHORT_ANSWER_TOKENS = 16  # what votes can be compared of: longer answers agree in substance, not in words
CLEAR = 0.6
"""After LEAST_TOKENS a chance of being wrong below this share of the threshold is clear enough to show."""

Judge = Callable[[Sequence[TokenScore], str], Confidence]


class Gate:
    """For one answer. Feed it the events; pass on what it returns; stop where ``hands_off`` is true.

    Text waits; progress and notices do not. What was handed off was never shown: it is in ``held_text``.
    """

    def __init__(self, judge: Judge, least: int = LEAST_TOKENS, most: int = MOST_TOKENS) -> None:
        self._judge = judge
        self._least, self._most = least, most
        self._held: list[Event] = []
        self._scores: list[TokenScore] = []
        self._open = False
        self.held_text = ""
        self.ended = False
        self.confidence: Confidence | None = None

    @property
    def hands_off(self) -> bool:
        """It has been judged and must not be shown."""
        return self.confidence is not None and self.confidence.is_low

    def feed(self, event: Event) -> tuple[Event, ...]:
        """What may be passed on now, in the order it came. Judged comes before the first text."""
        if self._open:
            return (event,)
        if self.hands_off:
            return ()
        if not isinstance(event, Delta | ToolCall | Reclassified | Finished | Failed):
            return (event,)
        self._held.append(event)
        self.ended = isinstance(event, Finished)
        if isinstance(event, Delta):
            self._scores += [score for score in event.scores if not score.forced]
            self.held_text += event.text
        if isinstance(event, Failed):  # who failed is not doubted but replaced
            return self._release()
        return self._weigh(ended=isinstance(event, Finished | ToolCall))

    @property
    def is_short(self) -> bool:
        """All of the answer is held back, and it is a few words: it can be asked for several times."""
        return self.ended and len(self._scores) <= SHORT_ANSWER_TOKENS

    def reconsidered(self, confidence: Confidence) -> tuple[Event, ...]:
        """After more was found out about an answer that was to be handed off: what may be passed on now."""
        self.confidence = confidence
        judged = Judged(confidence)
        return (judged,) if confidence.is_low else (judged, *self._release())

    def _weigh(self, ended: bool) -> tuple[Event, ...]:
        count = len(self._scores)
        if ended and not count:
            return self._release()  # nothing to judge it by
        if not ended and count < self._least:
            return ()
        confidence = self._judge(self._scores[: self._most], self.held_text)
        if not ended and count < self._most and confidence.p_wrong >= CLEAR * confidence.threshold:
            return ()
        self.confidence = confidence
        judged = Judged(confidence)
        return (judged,) if confidence.is_low else (judged, *self._release())

    def _release(self) -> tuple[Event, ...]:
        self._open, held, self._held = True, tuple(self._held), []
        return held
