"""One message on the screen: a person's, a reply, or a summary.

Owns how a stored message looks and how a reply grows. Knows nothing of where
messages come from; what keys do to a message is the screen's business.
"""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from localchat.card_text import is_plain, marks, summary
from localchat.history import StoredMessage
from localchat.tui.figures import percent_text
from localchat.tui.growing import Growing
from localchat.tui.open_block import OpenBlock
from localchat.tui.reasoning import Reasoning
from localchat.tui.safe_text import displayable, one_line
from localchat.tui.streaming import BlockSplitter
from router.request import Forecast

SHOWN_LINES = 24
"""Of a person's message; a pasted log of thousands of lines stays a glance."""


class MessageView(Growing):
    """A message with its label and footer; ``selected`` marks the one that keys act on."""

    class Picked(Message):
        def __init__(self, view: MessageView) -> None:
            super().__init__()
            self.view = view

    def __init__(self, stored: StoredMessage) -> None:
        super().__init__()
        self.stored = stored
        self._label = Static(classes="message--label")
        self._show_state()

    def compose(self) -> ComposeResult:
        yield self._label

    @property
    def copy_text(self) -> str:
        return self.stored.content

    def take(self, stored: StoredMessage) -> None:
        """Show what has changed around the text: branches, left out or not."""
        self.stored = stored
        self._show_state()

    def select(self, selected: bool) -> None:
        self.set_class(selected, "-selected")
        self._show_state()

    def toggle(self) -> None:
        """Show or hide what is folded."""

    def on_click(self, event: events.Click) -> None:
        if event.chain == 1 and not self.screen.selections:
            self.post_message(self.Picked(self))

    def _show_state(self) -> None:
        self.set_class(self.stored.excluded, "-excluded")
        self._label.update(Content("  ".join(self._label_parts())))
        self._label.display = bool(self._label_parts())

    def _label_parts(self) -> list[str]:
        parts = [self._speaker()] if self._speaker() else []
        if self.stored.sibling_count > 1:
            parts.append(f"‹ {self.stored.sibling_index + 1}/{self.stored.sibling_count} ›")
        if self.stored.excluded:
            parts.append("left out of the context")
        return parts

    def _speaker(self) -> str:
        return ""


class UserView(MessageView):
    """What a person said. Long text is cut on the screen, never in the store."""

    def __init__(self, stored: StoredMessage) -> None:
        self._expanded = False
        self._body = Static(self._shown(stored.content), classes="message--body", markup=False)
        super().__init__(stored)

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield self._body

    def toggle(self) -> None:
        self._expanded = not self._expanded
        self._body.update(self._shown(self.stored.content))

    def _shown(self, text: str) -> Content:
        lines = displayable(text).split("\n")
        hidden = 0 if self._expanded else len(lines) - SHOWN_LINES
        if hidden <= 1:
            return Content("\n".join(lines))
        more = Content.styled(f"\n… {hidden:,} more lines", "$foreground 60%")
        return Content("\n".join(lines[:SHOWN_LINES])) + more

    def _speaker(self) -> str:
        return "You"


class SummaryView(UserView):
    """The model's summary of turns that were left out."""

    def _speaker(self) -> str:
        return "Summary of what was left out"


class ReplyView(MessageView):
    """A reply: rendered once when it is complete, block by block while it grows."""

    def __init__(self, stored: StoredMessage, error: str = "") -> None:
        self._story = Static(classes="message--story")
        super().__init__(stored)
        self._error = error
        self._forecast: Forecast | None = None
        self._splitter = BlockSplitter()
        self._open = OpenBlock(classes="open-block")
        self._reasoning: Reasoning | None = Reasoning(stored.reasoning) if stored.reasoning else None
        self._footer = Static(self._footer_content(), classes="message--footer")
        self._text, self._shown_chars = stored.content, 0
        self._new_reasoning = ""
        self._progress = ""

    def compose(self) -> ComposeResult:
        from localchat.tui.prose import Prose

        yield from super().compose()
        if self._reasoning:
            yield self._reasoning
        if self.stored.content:
            yield Prose(self.stored.content)
        yield self._footer
        yield self._story

    @property
    def copy_text(self) -> str:
        return self._text

    # -- while it grows: collect() for every token, flush() a few times a second

    def collect(self, text: str, reasoning: bool = False) -> None:
        if reasoning:
            self._new_reasoning += text
        else:
            self._text += text

    async def reclassify(self) -> None:
        """What was shown as the answer so far was reasoning."""
        self._new_reasoning, self._text = self._text, ""
        self._shown_chars = 0
        self._splitter = BlockSplitter()
        await self.query("Prose, OpenBlock.open-block").remove()
        self._open = OpenBlock(classes="open-block")
        await self.flush()

    async def flush(self) -> None:
        await self._flush_reasoning()
        new, self._shown_chars = self._text[self._shown_chars :], len(self._text)
        if not new:
            return
        finished = list(self._splitter.feed(new))
        if not self._open.is_attached:
            await self.mount(self._open, before=self._footer)
        if finished:
            await self._show_finished("".join(finished))
        else:
            self._open.append(new)

    async def _show_finished(self, markdown: str) -> None:
        from localchat.tui.prose import Prose

        with self.app.batch_update():
            if markdown.strip():
                await self.mount(Prose(markdown), before=self._open)
            self._open.replace(self._splitter.open.lstrip("\n"))

    async def _flush_reasoning(self) -> None:
        new, self._new_reasoning = self._new_reasoning, ""
        if not new:
            return
        if self._reasoning is None:
            self._reasoning = Reasoning()
            await self.mount(self._reasoning, after=self._label)
        self._reasoning.append(new)

    def show_progress(self, text: str) -> None:
        """Replace the footer's text in place; its height never changes."""
        if text != self._progress:
            self._progress = text
            self._footer.update(Content(text), layout=False)

    def expect(self, forecast: Forecast) -> None:
        """What the reply's speed is scored against."""
        self._forecast = forecast

    async def finish(self, stored: StoredMessage, error: str = "") -> None:
        """The reply is complete: render all of it once, as it will look from now on."""
        from localchat.tui.prose import Prose

        self._error = error
        self._text = stored.content
        with self.app.batch_update():
            await self.query("Prose, OpenBlock.open-block").remove()
            if stored.content:
                await self.mount(Prose(stored.content), before=self._footer)
            self.take(stored)

    def take(self, stored: StoredMessage) -> None:
        super().take(stored)
        self._footer.update(self._footer_content())

    def toggle(self) -> None:
        if self._reasoning:
            self._reasoning.toggle()

    # -- its footer

    def _footer_content(self) -> Content:
        return Content(" · ".join(self._figures() + self._state_words()))

    def _show_state(self) -> None:
        super()._show_state()
        card = self.stored.card
        told = card is not None and not is_plain(card)
        self._story.display = told
        if card and told:
            self._story.update(Content(one_line(summary(card), 400)))

    def _figures(self) -> list[str]:
        stored, parts = self.stored, []
        if stored.model:
            parts.append(one_line(stored.model, 40))
        parts += [one_line(mark, 60) for mark in marks(stored.card)] if stored.card else []
        if stored.usage and stored.usage.completion_tokens:
            parts.append(f"{stored.usage.completion_tokens:,} tokens")
        if stored.timings and stored.timings.decode_tokens_per_s:
            parts.append(self._rate_text(stored.timings.decode_tokens_per_s))
        if stored.timings and stored.timings.ttft_s:
            parts.append(f"first token {stored.timings.ttft_s:.2f} s")
        return parts

    def _rate_text(self, tokens_per_s: float) -> str:
        rate = f"{tokens_per_s:.1f} tokens/s"
        error = self._forecast.error_percent(tokens_per_s) if self._forecast else None
        return rate if error is None else f"{rate}, {percent_text(error)} of predicted"

    def _state_words(self) -> list[str]:
        again = "/continue or /regenerate"
        match self.stored.state:
            case "stopped":
                return [f"stopped, {again}"]
            case "interrupted":
                return [f"interrupted, {again}"]
            case "failed":
                reason = one_line(self._error) or "it ended with an error"
                return [f"failed: {reason}", again]
            case _:
                return []


def view_of(stored: StoredMessage) -> MessageView:
    """The widget for a stored message."""
    if stored.kind == "summary":
        return SummaryView(stored)
    return ReplyView(stored) if stored.role == "assistant" else UserView(stored)
