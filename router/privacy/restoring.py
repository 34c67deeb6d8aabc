"""Puts hidden values back into an answer while it streams.

Sans I/O, and :func:`restored` for a stream of events. A placeholder may be cut into pieces anywhere:
any cutting of the same text gives the same result. Values that were put back are not looked into again.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from router.errors import RouterError
from router.privacy.kinds import Kind
from router.request import Delta, Event, Failed, Finished, TokenScore, ToolCall

if TYPE_CHECKING:
    from router.privacy.redaction import Redaction

PLACEHOLDER = re.compile(r"<[A-Z_]+_[0-9]+>")


@dataclass(frozen=True, slots=True)
class Hidden:
    """``value`` as it stood in the request; ``in_json``: written as JSON wants it already."""

    value: str = field(repr=False)
    kind: Kind
    in_json: bool = False


class Restorer:
    """Feed it text, get text; ``end`` gives what was held back as a possible beginning."""

    def __init__(self, hidden: Mapping[str, Hidden], *, as_json: bool = False) -> None:
        """``as_json``: a value is written so that it may stand within a string of JSON."""
        self._values = {
            placeholder: _escaped(each.value) if as_json and not each.in_json else each.value
            for placeholder, each in hidden.items()
        }
        self._beginnings = {name[:size] for name in self._values for size in range(1, len(name))}
        self._held = ""

    def feed(self, text: str) -> str:
        whole = self._held + text
        last = whole.rfind("<")
        cut = last if last >= 0 and whole[last:] in self._beginnings else len(whole)
        whole, self._held = whole[:cut], whole[cut:]
        return PLACEHOLDER.sub(lambda match: self._values.get(match[0], match[0]), whole)

    def end(self) -> str:
        held, self._held = self._held, ""
        return held


def _escaped(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)[1:-1]


async def restored(
    events: AsyncGenerator[Event, None], redaction: Redaction, *, as_json: bool = False
) -> AsyncGenerator[Event, None]:
    """The same events with the values back; closing it closes ``events``.

    ``as_json``: the answer itself is JSON. Arguments of tool calls are in any case.
    """
    texts = _Texts(redaction, as_json)
    async with aclosing(events):
        try:
            async for event in events:
                if isinstance(event, Finished | Failed):
                    for held in texts.end():
                        yield held
                said = texts.put_back(event)
                if said is not None:
                    yield said
        except RouterError:  # what was said before it stays valid
            for held in texts.end():
                yield held
            raise


class _Texts:
    """A restorer for each text of an answer; scores wait for the text that they belong to."""

    def __init__(self, redaction: Redaction, as_json: bool) -> None:
        self._redaction = redaction
        self._deltas = {kind: Restorer(redaction.hidden, as_json=as_json) for kind in ("text", "reasoning")}
        self._calls: dict[int, Restorer] = {}
        self._scores: dict[str, tuple[TokenScore, ...]] = {"text": (), "reasoning": ()}

    def put_back(self, event: Event) -> Event | None:
        """None: all of it is held back."""
        if isinstance(event, ToolCall):
            call = self._calls.setdefault(event.index, Restorer(self._redaction.hidden, as_json=True))
            name = self._redaction.restore(event.name)
            return ToolCall(event.index, event.call_id, name, call.feed(event.arguments))
        if not isinstance(event, Delta):
            return event
        text = self._deltas[event.kind].feed(event.text)
        scores = self._scores[event.kind] + event.scores
        if event.text and not text:
            self._scores[event.kind] = scores
            return None
        self._scores[event.kind] = ()
        return Delta(text, event.kind, scores)

    def end(self) -> list[Event]:
        held: list[Event] = []
        for kind in ("reasoning", "text"):
            text, scores = self._deltas[kind].end(), self._scores[kind]
            if text or scores:
                held.append(Delta(text, "text" if kind == "text" else "reasoning", scores))
            self._scores[kind] = ()
        rest = ((index, call.end()) for index, call in self._calls.items())
        return held + [ToolCall(index, arguments=text) for index, text in rest if text]
