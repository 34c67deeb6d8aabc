"""Exactly what would leave, for a person to read before it does."""

from __future__ import annotations

import json
import re

from router.cloud.wire import Dialect, request_to_json
from router.request import ChatRequest

_NOT_TO_BE_SEEN = re.compile(r"[^\x00-\x7f]")


def preview(request: ChatRequest, model: str, dialect: Dialect) -> str:
    """The body that is sent, indented: reading it as JSON gives what is sent, field for field.

    What has no shape on a screen or would steer it (controls, characters without width) is escaped.
    Raises InvalidRequest for what this provider cannot do.
    """
    body = json.dumps(request_to_json(request, model, dialect), indent=2, ensure_ascii=False)
    return _NOT_TO_BE_SEEN.sub(_visible, body).replace("\x7f", "\\u007f")


def _visible(match: re.Match[str]) -> str:
    character = match[0]
    return character if character.isprintable() else json.dumps(character)[1:-1]
