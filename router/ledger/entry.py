"""What is kept of one answer, and how it is written down as JSON and read again.

Owns the fields. Holds no prompt and no answer unless a person chose so, and never what was
found in them. A figure that nobody knows is None, never 0.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from router.consent import PrivacyAction
from router.decision import Alternative, CacheLabel, Confidence, Estimate, Mode, Route, Verdict
from router.privacy import Kind
from router.privacy.scanning import texts
from router.request import ChatRequest, HandedOff, Sampling, Simulated, Usage

Source = Literal["local", "cloud", "cache"]
LabelName = Literal["good", "bad", "redone in the cloud", "rejected"]

_ID_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's base 32: none is mistaken for another
_ID_LENGTH = 8  # 40 bits: two alike among a million entries once in two


@dataclass(frozen=True, slots=True)
class Label:
    """What a person said of an answer afterwards. ``at`` is Unix seconds."""

    name: LabelName
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One answer. ``started_at`` is Unix seconds; ``id`` is what `localchat explain` takes.

    ``route`` is what was decided, ``answered_by`` who gave the answer in the end, ``hand_offs`` lie between;
    ``model`` and ``version`` are those of the answer. ``parameters`` are resolved: what was really used.
    ``cost_usd`` is what was paid, 0 here and from the cache; ``avoided_usd`` what the configured cloud
    would have cost instead. ``sent``: the request went to the cloud, which may be a ``simulated_cloud``.
    ``payload_bytes`` is the whole request's text in UTF-8. ``outcome`` is
    the finish reason, or the name of the error. ``prompt`` and ``answer`` are "" unless chosen.
    """

    id: str
    started_at: float
    mode: Mode
    route: Route
    answered_by: Source
    model: str
    outcome: str
    conversation_id: int | None = None
    provider: str = ""
    version: str = ""
    reasons: tuple[str, ...] = ()
    alternatives: tuple[Alternative, ...] = ()
    difficulty: float | None = None
    expected: Estimate | None = None
    parameters: Sampling = field(default_factory=Sampling)
    prompt_sha256: str = ""
    payload_bytes: int | None = None
    usage: Usage | None = None
    usage_is_estimate: bool = False
    ttft_s: float | None = None
    total_s: float | None = None
    cost_usd: float | None = None
    avoided_usd: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    confidence: Confidence | None = None
    cache: CacheLabel | None = None
    cache_guards: tuple[str, ...] = ()
    privacy_action: PrivacyAction = ""
    privacy_found: Mapping[Kind, int] = field(default_factory=dict)
    hand_offs: tuple[HandedOff, ...] = ()
    sent: bool = False
    simulated_cloud: bool = False
    simulated: Simulated | None = None
    prompt: str = field(default="", repr=False)
    answer: str = field(default="", repr=False)
    labels: tuple[Label, ...] = ()

    @property
    def is_simulated(self) -> bool:
        """The cloud that was asked was no real one, whether or not it came to answer."""
        return self.simulated is not None or (self.sent and self.simulated_cloud)

    @property
    def left_the_machine(self) -> bool:
        """The request went to a real cloud, whoever answered in the end."""
        return self.sent and not self.is_simulated


def new_id() -> str:
    return "".join(secrets.choice(_ID_DIGITS) for _ in range(_ID_LENGTH))


def prompt_sha256(request: ChatRequest) -> str:
    """Of every text that would leave, and who says it. Whoever reads it can test a guess, no more."""
    said = [[message.role for message in request.messages]]
    parts = [[str(place.field), place.index, text] for place, text in texts(request)]
    return hashlib.sha256(json.dumps([said, parts]).encode()).hexdigest()


def payload_bytes(request: ChatRequest) -> int:
    return sum(len(text.encode("utf-8", "replace")) for _, text in texts(request))


NOT_IN_JSON = ("labels", "prompt", "answer")  # columns and a table of their own


def entry_to_json(entry: Entry) -> str:
    kept = {name: value for name, value in asdict(entry).items() if name not in NOT_IN_JSON}
    return json.dumps(kept, ensure_ascii=False)


def entry_from_json(text: str, prompt: str, answer: str, labels: tuple[Label, ...]) -> Entry:
    """Raises ValueError for what no version of this program wrote."""
    try:
        kept = json.loads(text)
        found: Entry = _read(Entry, {**kept, "prompt": prompt, "answer": answer})
        return replace(found, labels=labels)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is no entry: {error}") from error


def _read(hint: Any, value: Any) -> Any:
    """``value`` of JSON as the type ``hint``; fields that another version wrote are left aside."""
    if get_origin(hint) in (Union, UnionType):
        return None if value is None else _read(next(k for k in get_args(hint) if k is not NoneType), value)
    if get_origin(hint) is tuple:
        return tuple(_read(get_args(hint)[0], item) for item in value)
    if is_dataclass(hint) and isinstance(hint, type):
        hints = _hints(hint)
        return hint(**{name: _read(hints[name], item) for name, item in value.items() if name in hints})
    return value


@cache  # working them out takes a hundred times as long as reading an entry
def _hints(kind: type) -> dict[str, Any]:
    """Of the fields of a dataclass, which have no other annotations."""
    return get_type_hints(kind)
