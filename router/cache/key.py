"""Which questions may share an answer: what must be equal (the partition), and when texts are the same.

Pure. A partition is a digest of everything that shapes an answer except the last text by
the user; nothing is ever compared across partitions. Knows nothing of similarity.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from router.request import ChatRequest

SCHEMA_VERSION = 1  # of keys and guards' inputs: another one makes all that was stored a miss

_INDENTED = re.compile(r"^(?: {2,}|\t)\S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class CacheTarget:
    """Who would answer, and for whom. ``revision`` is the model's, "" where the provider names none."""

    profile: str
    provider: str
    model: str
    revision: str = ""


@dataclass(frozen=True, slots=True)
class Key:
    """``partition`` and ``exact`` are SHA-256 digests; ``text`` is the last text, normalised."""

    partition: bytes
    exact: bytes
    text: str


def key_of(
    request: ChatRequest,
    target: CacheTarget,
    *,
    language: str,
    embedder_id: str,
    attachments: Sequence[str] = (),
) -> Key:
    """``attachments`` are digests of files that are sent along. The last message must be the user's."""
    text = normalised(request.messages[-1].content)
    partition = _digest(
        {
            "schema": SCHEMA_VERSION,
            "target": asdict(target),
            "messages": [asdict(message) for message in request.messages[:-1]],
            "tools": asdict(request.tools) if request.tools else None,
            "response_format": asdict(request.response_format) if request.response_format else None,
            # Every field, with seed, stop and max_tokens: a new one takes part by itself.
            "sampling": asdict(request.sampling),
            "language": language,
            "attachments": list(attachments),
            "embedder": embedder_id,
        }
    )
    return Key(partition, _digest([partition.hex(), text]), text)


def normalised(text: str) -> str:
    """``text`` in NFC with runs of white space as one space; case, digits and code stay as they are.

    Where a text holds code (a backtick, an indented line) white space may mean something:
    then only its ends are trimmed.
    """
    composed = unicodedata.normalize("NFC", text).replace("\r\n", "\n").strip()
    if "`" in composed or _INDENTED.search(composed):
        return composed
    return " ".join(composed.split())


def _digest(value: object) -> bytes:
    # JSON keeps apart what joined strings would not, and ASCII has a form for lone surrogates.
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).digest()
