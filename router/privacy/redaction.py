"""Replaces what was found by placeholders that a model can repeat, and puts the values back.

Owns what a placeholder looks like: ``<EMAIL_1>`` means nothing to JSON, regular expressions or
Markdown, ends itself, and holds no second ``<``, so that none arises where texts are joined. The same
value has the same one, and none stands anywhere in the request already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from router.privacy.folding import Folded, fold
from router.privacy.kinds import Hit, Kind, apart
from router.privacy.restoring import PLACEHOLDER, Hidden, Restorer
from router.privacy.scanning import JSON_FIELDS, Place, hits_in, texts
from router.request import ChatRequest, ResponseFormat, Tools

SHORTEST_REPEAT = 6
"""Characters of a value that is also replaced where nothing points to it: a phone number that was
told by the word before it stands bare elsewhere. What is shorter (a password "abc") may be any word."""


@dataclass(frozen=True, slots=True)
class Redaction:
    """What each placeholder stands for. Its repr shows no value."""

    hidden: dict[str, Hidden] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.hidden)

    @property
    def counts(self) -> dict[Kind, int]:
        """How many different values of each kind are hidden."""
        kinds = [each.kind for each in self.hidden.values()]
        return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}

    def restore(self, text: str, *, as_json: bool = False) -> str:
        """``text`` with the values back; ``as_json`` where it is JSON text that a value must not break."""
        restorer = Restorer(self.hidden, as_json=as_json)
        return restorer.feed(text) + restorer.end()


def redact(request: ChatRequest) -> tuple[ChatRequest, Redaction]:
    """The request as it may leave, and the way back; ``request`` itself, where nothing is found."""
    folded = {place: (text, fold(text)) for place, text in texts(request)}
    hits = {place: hits_in(each) for place, (_, each) in folded.items()}
    if not any(hits.values()):
        return request, Redaction()
    repeats = _Repeats(
        (folded[place][1].text[hit.start : hit.end], hit.kind) for place in hits for hit in hits[place]
    )
    names = _Placeholders(spelling for text, each in folded.values() for spelling in (text, each.text))
    written = {
        place: _rewritten(place, text, each, repeats.added_to(hits[place], each.text), names)
        for place, (text, each) in folded.items()
    }
    return _with(request, written), Redaction(names.hidden)


def _rewritten(place: Place, text: str, folded: Folded, hits: list[Hit], names: _Placeholders) -> str:
    parts: list[str] = []
    done = 0
    for hit in hits:
        start, end = folded.span(hit.start, hit.end)
        start = max(start, done)  # two characters of the folded text may come from one
        parts += [text[done:start], names.of(text[start:end], hit.kind, place.field in JSON_FIELDS)]
        done = end
    return "".join(parts) + text[done:]


class _Placeholders:
    """Gives them out, in the order in which values are met."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.hidden: dict[str, Hidden] = {}
        self._known: dict[tuple[str, bool], str] = {}
        self._count: dict[Kind, int] = {}
        self._taken = {found for text in texts for found in PLACEHOLDER.findall(text)}

    def of(self, value: str, kind: Kind, is_json: bool) -> str:
        in_json = is_json and "\\" in value
        known = self._known.get((value, in_json))
        if known is None:
            known = self._known[value, in_json] = self._new(kind)
            self.hidden[known] = Hidden(value, kind, in_json)
        return known

    def _new(self, kind: Kind) -> str:
        tag = kind.upper().replace(" ", "_")
        while True:
            self._count[kind] = number = self._count.get(kind, 0) + 1
            placeholder = f"<{tag}_{number}>"
            if placeholder not in self._taken:
                return placeholder


class _Repeats:
    """Finds further places of values that were found elsewhere, in one pass over a text."""

    def __init__(self, values: Iterator[tuple[str, Kind]]) -> None:
        self._by_beginning: dict[str, dict[int, dict[str, Kind]]] = {}
        for value, kind in values:
            if len(value) >= SHORTEST_REPEAT:
                sized = self._by_beginning.setdefault(value[:SHORTEST_REPEAT], {})
                sized.setdefault(len(value), {})[value] = kind

    def added_to(self, hits: list[Hit], text: str) -> list[Hit]:
        known = self._by_beginning
        size = SHORTEST_REPEAT
        more = []
        for at in range(len(text) - size + 1):
            if text[at : at + size] in known:
                more += self._at(text, at)
        return apart(hits + more)

    def _at(self, text: str, at: int) -> list[Hit]:
        sized = self._by_beginning[text[at : at + SHORTEST_REPEAT]]
        longest = max((n for n, values in sized.items() if text[at : at + n] in values), default=0)
        return [Hit(at, at + longest, sized[longest][text[at : at + longest]], "")] if longest else []


def _with(request: ChatRequest, written: dict[Place, str]) -> ChatRequest:
    """``request`` with the texts that were written anew."""

    def new(place: Place, old: str) -> str:
        return written.get(place, old)

    messages = tuple(
        replace(
            message,
            content=new(Place("content", index), message.content),
            tool_calls=new(Place("tool_calls", index), message.tool_calls),
            tool_call_id=new(Place("tool_call_id", index), message.tool_call_id),
        )
        for index, message in enumerate(request.messages)
    )
    tools, wanted = request.tools, request.response_format
    stop = tuple(new(Place("stop", index), text) for index, text in enumerate(request.sampling.stop))
    return replace(
        request,
        messages=messages,
        sampling=replace(request.sampling, stop=stop),
        tools=tools
        and Tools(new(Place("tools"), tools.definitions), new(Place("tool_choice"), tools.choice)),
        response_format=wanted and ResponseFormat(wanted.kind, new(Place("response_format"), wanted.source)),
    )
