"""Looks through everything of a request that would leave: messages, tools, schema, stop strings.

Owns where a text of a request stands (:class:`Place`). Findings say where and what kind; they
hold no value, so that they may be shown, counted and logged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from router.privacy.addresses import emails
from router.privacy.credentials import keys, passwords, private_keys
from router.privacy.digit_runs import digit_runs
from router.privacy.folding import Folded, fold
from router.privacy.kinds import PLURALS, Hit, Kind, apart
from router.privacy.numbers import cards, ibans, tax_numbers
from router.privacy.phones import phones
from router.request import ChatRequest

Field = Literal["content", "tool_calls", "tool_call_id", "tools", "tool_choice", "response_format", "stop"]
FEWEST_DIGITS = 7  # of anything that is looked for: a subscriber's number
JSON_FIELDS: frozenset[Field] = frozenset(("tool_calls", "tools", "tool_choice"))


@dataclass(frozen=True, slots=True)
class Place:
    """One text of a request: ``index`` is that of the message, or of the stop string."""

    field: Field
    index: int = 0

    def __str__(self) -> str:
        number = f"message {self.index + 1}"
        names = {"content": number, "tool_calls": f"{number}, its tool calls", "tool_call_id": number}
        return names.get(self.field, self.field.replace("_", " "))


@dataclass(frozen=True, slots=True)
class Finding:
    """Characters ``start`` to ``end`` of the text at ``place``; ``what`` is the kind more exactly."""

    kind: Kind
    what: str
    place: Place
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Findings:
    found: tuple[Finding, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.found)

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def counts(self) -> dict[Kind, int]:
        return dict(Counter(finding.kind for finding in self.found))

    def __str__(self) -> str:
        return counted(self.counts) or "no identifiers or secrets of the kinds that are looked for"


def counted(counts: Mapping[Kind, int]) -> str:
    """ "1 card number, 2 e-mail addresses"; "" for none."""
    kinds = (kind for kind in PLURALS if counts.get(kind))
    return ", ".join(f"{counts[kind]} {PLURALS[kind][counts[kind] > 1]}" for kind in kinds)


def texts(request: ChatRequest) -> Iterator[tuple[Place, str]]:
    """Every text of ``request`` that leaves with it, empty ones left out."""
    for index, message in enumerate(request.messages):
        yield from _not_empty(Place("content", index), message.content)
        yield from _not_empty(Place("tool_calls", index), message.tool_calls)
        yield from _not_empty(Place("tool_call_id", index), message.tool_call_id)
    if request.tools:
        yield from _not_empty(Place("tools"), request.tools.definitions)
        yield from _not_empty(Place("tool_choice"), request.tools.choice)
    if request.response_format:
        yield from _not_empty(Place("response_format"), request.response_format.source)
    for index, text in enumerate(request.sampling.stop):
        yield from _not_empty(Place("stop", index), text)


def _not_empty(place: Place, text: str) -> Iterator[tuple[Place, str]]:
    if text:
        yield place, text


def scan(request: ChatRequest) -> Findings:
    """All of the whole payload, in order. Takes time in proportion to its length, whatever it holds."""
    found: list[Finding] = []
    for place, text in texts(request):
        folded = fold(text)
        found += [
            Finding(hit.kind, hit.what, place, *folded.span(hit.start, hit.end)) for hit in hits_in(folded)
        ]
    return Findings(tuple(found))


def scan_text(text: str) -> tuple[Hit, ...]:
    """The same for one text, with places in ``text`` itself."""
    folded = fold(text)
    return tuple(Hit(*folded.span(h.start, h.end), h.kind, h.what) for h in hits_in(folded))


def hits_in(folded: Folded) -> list[Hit]:
    """Disjoint and in order, with places in the folded text."""
    text = folded.text
    hits = [*private_keys(text), *keys(text), *passwords(text), *emails(text), *ibans(text)]
    for run in digit_runs(text):
        if run.end - run.start < FEWEST_DIGITS:
            continue
        hits += [*cards(run), *tax_numbers(run), *phones(run)]
    return apart(hits)
