"""Which model answers: the catalog, and fetching another.

Owns the list and the download's progress. Returns a name; loading it is the
chat's business, and until then the present model stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Event
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from localchat.errors import LocalchatError
from localchat.tui.panel import Panel
from localchat.tui.pastes import size_text
from localchat.tui.safe_text import displayable, one_line
from localchat.weights import Catalog, Progress, Weights


class _Closed(Exception):
    """The picker was closed while a download ran; the next pull goes on from there."""


class ModelPicker(Panel[str]):
    heading = "Models"
    hints = "enter choose  tab download another  esc close"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("tab", "switch", "Switch", priority=True)]

    def __init__(self, catalog: Catalog, current: str) -> None:
        super().__init__()
        self._catalog, self._current = catalog, current
        self._list = OptionList(id="weights", compact=True, markup=False)
        self._spec = Input(placeholder="hf:owner/repo/file.gguf or default", id="pull", compact=True)
        self._said = Static(id="pull-progress", markup=False)
        self._weights: Sequence[Weights] = ()
        self._abandoned = Event()

    def body(self) -> ComposeResult:
        yield self._list
        yield Static("Download", classes="panel--label")
        yield self._spec
        yield self._said

    def on_mount(self) -> None:
        self._list.focus()
        self.run_worker(self._fill(), group="catalog")

    async def _fill(self) -> None:
        self._weights = await asyncio.to_thread(self._catalog.list)
        width = max((len(one_line(w.name, 40)) for w in self._weights), default=0)
        self._list.add_options(Option(self._row(weights, width)) for weights in self._weights)
        if not self._weights:
            self._said.update(Content("No models on this machine yet. Type default and press enter."))
            self._spec.focus()
        else:
            names = [weights.name for weights in self._weights]
            self._list.highlighted = names.index(self._current) if self._current in names else 0

    def _row(self, weights: Weights, width: int) -> Content:
        mark = "› " if weights.name == self._current else "  "
        size = size_text(weights.bytes).rjust(9)
        return Content.assemble(
            mark + one_line(weights.name, 40).ljust(width + 2),
            size,
            (f"  {weights.source}", "$foreground 60%"),
        )

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._weights[event.option_index].name)

    def action_switch(self) -> None:
        (self._list if self._spec.has_focus else self._spec).focus()

    def action_close(self) -> None:
        self._abandoned.set()
        super().action_close()

    # -- fetching

    @on(Input.Submitted)
    def _pull(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self._spec.disabled = True
            self.run_worker(self._fetch(event.value.strip()), group="pull", exclusive=True)

    async def _fetch(self, spec: str) -> None:
        loop = asyncio.get_running_loop()

        def tell(progress: Progress) -> None:
            if self._abandoned.is_set():
                raise _Closed
            loop.call_soon_threadsafe(self._show, progress)

        try:
            weights = await asyncio.to_thread(self._catalog.pull, spec, tell)
        except _Closed:
            return
        except LocalchatError as error:
            self._said.update(Content(displayable(str(error))))
            self._spec.disabled = False
            self._spec.focus()
            return
        self.dismiss(weights.name)

    def _show(self, progress: Progress) -> None:
        if self.is_attached:
            self._said.update(Content(download_text(progress)))


def download_text(progress: Progress) -> str:
    """``model.gguf 41.0 MB of 98.3 MB · 12.1 MB/s · 5 s left``."""
    of = f" of {size_text(progress.total)}" if progress.total else ""
    parts = [f"{one_line(progress.name, 40)} {size_text(progress.bytes)}{of}"]
    if progress.bytes_per_s:
        parts.append(f"{size_text(progress.bytes_per_s)}/s")
    if progress.seconds_left is not None:
        parts.append(f"{progress.seconds_left:,.0f} s left")
    return " · ".join(parts)
