"""The sampling parameters and the system prompt of this conversation.

Owns the form; which values are allowed is said by ``settings``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static, TextArea

from localchat.errors import UsageError
from localchat.settings import load_settings
from localchat.tui.panel import Panel
from router.request import Sampling

FIELDS = {
    "temperature": "0: always the likeliest",
    "top_p": "share of probability to choose from",
    "top_k": "tokens to choose from, 0: all",
    "min_p": "least share of the likeliest",
    "repeat_penalty": "1: none",
    "seed": "empty: a new one each time",
    "max_tokens": "empty: to the end of the window",
    "stop": r"separate with |, \n is a new line",
}


@dataclass(frozen=True, slots=True)
class Parameters:
    sampling: Sampling
    system: str


def field_text(sampling: Sampling, name: str) -> str:
    value = getattr(sampling, name)
    if name == "stop":
        return "|".join(part.replace("\n", "\\n") for part in sampling.stop)
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def read_fields(sampling: Sampling, texts: dict[str, str]) -> Sampling:
    """``sampling`` with the typed values. Raises UsageError naming what is wrong."""
    values = {name: _read(name, texts[name].strip()) for name in FIELDS if name in texts}
    kept = {name: getattr(sampling, name) for name in ("frequency_penalty", "presence_penalty")}
    flags = {f"sampling.{name}": value for name, value in (values | kept).items()}
    try:
        return load_settings(Path(os.devnull), {}, flags).sampling
    except UsageError as error:
        raise UsageError(str(error).replace("sampling.", "")) from error


def _read(name: str, text: str) -> object:
    if name == "stop":
        return tuple(part.replace("\\n", "\n") for part in text.split("|") if part)
    if not text and name in ("seed", "max_tokens"):
        return None
    whole = name in ("top_k", "seed", "max_tokens")
    try:
        return int(text) if whole else float(text)
    except ValueError as error:
        raise UsageError(f"{name} must be a {'whole ' if whole else ''}number.") from error


class ParametersPanel(Panel[Parameters]):
    heading = "Parameters"
    hints = "ctrl+s apply  tab next  esc cancel"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "apply", "Apply", priority=True)]

    def __init__(self, sampling: Sampling, system: str, focus: str = "temperature") -> None:
        super().__init__()
        self._sampling, self._system, self._first = sampling, system, focus

    def body(self) -> ComposeResult:
        with VerticalScroll(id="parameters", can_focus=False):
            yield Static("System prompt", classes="panel--label")
            area = TextArea(self._system, id="system", compact=True, highlight_cursor_line=False)
            area.cursor_blink = False
            yield area
            for name, help_text in FIELDS.items():
                with Horizontal(classes="parameter"):
                    yield Static(Content(name), classes="parameter--name")
                    yield Input(field_text(self._sampling, name), id=name, compact=True)
                    yield Static(Content(help_text), classes="parameter--help")
        yield Static(id="parameter-error", markup=False)

    def on_mount(self) -> None:
        self.query_one(f"#{self._first}").focus()

    @on(Input.Submitted)
    def action_apply(self) -> None:
        try:
            sampling = read_fields(self._sampling, {name: self._text(name) for name in FIELDS})
        except UsageError as error:
            self.query_one("#parameter-error", Static).update(Content(str(error)))
            return
        self.dismiss(Parameters(sampling, self.query_one("#system", TextArea).text))

    def _text(self, name: str) -> str:
        return self.query_one(f"#{name}", Input).value
