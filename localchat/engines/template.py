"""Messages to prompt text, by the model's own chat template.

A template is a program from the model file: untrusted. It runs in Jinja's
immutable sandbox, in the worker process, which can be killed. What people type
can never become a control token: see :func:`render`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from router.request import Message

PLAIN = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
"""For files without a template, mostly base models: a transcript to go on with."""


LONGEST_COMPLAINT = 500  # characters of an error, which a template may have made


class BadTemplate(Exception):
    """The template does not compile, or refuses these messages."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a prompt; in literal ones control tokens are plain text."""

    text: str
    literal: bool


class _Generation(Extension):
    """``{% generation %}`` marks the assistant's text for training: here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012  # as in the parent

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class ChatTemplate:
    """A compiled template. ``source`` '' means PLAIN."""

    def __init__(self, source: str, bos: str = "", eos: str = "") -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation]
        )
        environment.filters["tojson"] = _to_json
        environment.globals.update(raise_exception=_raise, strftime_now=_now)
        self._tokens = {"bos_token": bos, "eos_token": eos}
        try:
            self._template = environment.from_string(source or PLAIN)
        except Exception as error:  # RecursionError and SyntaxError too: Jinja compiles to Python
            raise BadTemplate(f"The model's chat template is invalid: {_words(error)}.") from error

    def text(self, messages: Sequence[Message]) -> str:
        """The prompt up to where the assistant speaks.

        Templates that refuse a system message get it at the head of the first user
        message. Raises BadTemplate.
        """
        turns = [{"role": m.role, "content": m.content} for m in messages]
        try:
            return self._render(turns)
        except BadTemplate:
            if not turns or turns[0]["role"] != "system" or len(turns) < 2:
                raise
            head, first, *rest = turns
            merged = {"role": first["role"], "content": f"{head['content']}\n\n{first['content']}"}
            return self._render([merged, *rest])

    def _render(self, turns: list[dict[str, str]]) -> str:
        try:
            return self._template.render(messages=turns, add_generation_prompt=True, **self._tokens)
        except Exception as error:  # a template may fail in any way Python can
            raise BadTemplate(f"The model's chat template failed: {_words(error)}.") from error


def render(template: ChatTemplate, messages: Sequence[Message], controls: Sequence[str]) -> list[Segment]:
    """The prompt as segments.

    Where a message holds the text of a control token (``controls``), that text is
    hidden from the template behind a mark nobody can guess and comes back as a
    literal segment; everything else is one segment.
    """
    mark = f"x{secrets.token_hex(8)}x"  # ends in letters: the number between two is clear
    hidden: list[str] = []
    shown = [Message(m.role, _hide(m.content, controls, mark, hidden)) for m in messages]
    text = template.text(shown)
    segments: list[Segment] = []
    for number, piece in enumerate(re.split(f"{mark}([0-9]+){mark}", text)):
        if number % 2:
            segments.append(Segment(hidden[int(piece)], True))
        elif piece:
            segments.append(Segment(piece, False))
    return segments


def _hide(content: str, controls: Sequence[str], mark: str, hidden: list[str]) -> str:
    """In one pass, so that no mark is itself searched; ``controls`` are longest first."""

    def hide(found: re.Match[str]) -> str:
        hidden.append(found[0])
        return f"{mark}{len(hidden) - 1}{mark}"

    return re.sub("|".join(map(re.escape, controls)), hide, content) if controls else content


def _words(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:LONGEST_COMPLAINT]


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    # Unlike Jinja's own filter: no HTML escapes, as in the library templates are written for.
    return json.dumps(value, indent=indent, ensure_ascii=False)


def _raise(message: str) -> NoReturn:
    raise TemplateError(message)


def _now(form: str) -> str:
    return datetime.now().strftime(form)
