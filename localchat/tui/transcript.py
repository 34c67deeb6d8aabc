"""The messages on the screen: a window of the conversation that scrolls.

Owns which messages are mounted, where the view stands, and which message keys
act on. Knows nothing of turns or of the store: older messages come from a
function it is given.

The view never jumps. At the end it follows the tail; anywhere else it holds the
first visible message in its place, whatever is added, removed or rendered anew
above. Both happen inside the layout pass that moved things, so no frame between
is ever painted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.layout import DockArrangeResult, WidgetPlacement
from textual.message import Message
from textual.scrollbar import ScrollBar
from textual.widget import Widget
from textual.widgets import Static

from localchat.history import StoredMessage
from localchat.tui.growing import Growing
from localchat.tui.message import MessageView, ReplyView, view_of

Older = Callable[[int, int], Sequence[StoredMessage]]
"""(id of the first message shown, how many) -> the messages before it, in order."""

FIRST_MOUNTED = 8  # a screenful, painted before the rest of the window is mounted
WINDOW = 30
PAGE = 16
MOST_REVEALED_PAGES = 8
MOST_MOUNTED = 80  # beyond it the oldest are let go while the reader is at the end


class Transcript(VerticalScroll, Growing):
    """A window of messages, the newest at the bottom."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("end", "jump_to_end", "Jump to the end"),
        Binding("up", "screen.select_message(-1)", "Previous message"),
        Binding("down", "screen.select_message(1)", "Next message"),
        Binding("c,y", "screen.message('copy')", "Copy"),
        Binding("b", "screen.message('copy_block')", "Copy the next code block"),
        *(
            Binding(str(n), f"screen.message('copy_block', {n})", f"Copy code block {n}")
            for n in range(1, 10)
        ),
        Binding("e", "screen.message('edit')", "Edit"),
        Binding("r", "screen.message('regenerate')", "Answer again"),
        Binding("left_square_bracket", "screen.message('switch', -1)", "Branch before"),
        Binding("right_square_bracket", "screen.message('switch', 1)", "Branch after"),
        Binding("o", "screen.message('redo')", "Ask the other side"),
        Binding("plus", "screen.message('rate', True)", "A good answer"),
        Binding("minus", "screen.message('rate', False)", "A bad answer"),
        Binding("n", "screen.message('reject')", "Not this stored answer"),
        Binding("w", "screen.message('why')", "Why this answer"),
        Binding("x", "screen.message('exclude')", "Leave out"),
        Binding("f", "screen.message('resume')", "Go on from here"),
        Binding("space,enter", "screen.message('toggle')", "Unfold"),
        Binding("question_mark", "screen.command('help')", "Help"),
    ]
    VIM: ClassVar[dict[str, str]] = {
        "j": "scroll_lines(1)",
        "k": "scroll_lines(-1)",
        "g": "jump_to_top",
        "G": "jump_to_end",
    }

    class Selected(Message):
        """Another message is selected, or none."""

    def __init__(self, older: Older, vim: bool = False) -> None:
        super().__init__(id="transcript")
        self._older = older
        for key, action in self.VIM.items() if vim else ():
            self._bindings.bind(key, action, show=False)
        self._has_older = False
        self._loading_older = False
        self._placements: Sequence[WidgetPlacement] = ()
        # The first visible message, and how far it is scrolled.
        self._held: tuple[Widget, float] | None = None
        self.following = True  # the reader is at the end, and new text is followed
        self.selected: MessageView | None = None

    # -- which messages are mounted

    @property
    def views(self) -> list[MessageView]:
        return [child for child in self.children if isinstance(child, MessageView)]

    def view(self, message_id: int) -> MessageView | None:
        return next((view for view in self.views if view.stored.id == message_id), None)

    async def show(self, messages: Sequence[StoredMessage], welcome: str = "") -> None:
        """Show ``messages`` (more may come before them) in place of what is shown."""
        self.select(None)
        self._has_older = bool(messages)
        first, rest = messages[-FIRST_MOUNTED:], messages[:-FIRST_MOUNTED]
        with self.app.batch_update():
            await self.remove_children()
            await self.mount_all(view_of(stored) for stored in first)
            if not messages:
                await self.mount(Static(Content(welcome), id="welcome"))
        self.jump_to_end()
        if rest:
            await self.mount_all((view_of(stored) for stored in rest), before=0)

    async def append(self, view: MessageView) -> None:
        await self.query("#welcome").remove()
        await self.mount(view)
        if self.following and len(self.views) > MOST_MOUNTED:
            self._has_older = True
            for old in self.views[:-WINDOW]:
                await old.remove()

    async def cut_from(self, message_id: int) -> None:
        """Let go of the message and all after it."""
        await self._cut(lambda ids: ids.index(message_id), message_id)

    async def cut_after(self, message_id: int) -> None:
        await self._cut(lambda ids: ids.index(message_id) + 1, message_id)

    async def _cut(self, begin: Callable[[list[int]], int], message_id: int) -> None:
        views = self.views
        ids = [view.stored.id for view in views]
        if message_id in ids:
            with self.app.batch_update():
                for view in views[begin(ids) :]:
                    await view.remove()

    async def reveal(self, message_id: int) -> None:
        """Select a message, mounting what lies between as far as a few pages."""
        for _ in range(MOST_REVEALED_PAGES):
            if view := self.view(message_id):
                self.select(view)
                self.focus()
                return
            if not await self.load_older(4 * PAGE):
                return

    async def load_older(self, count: int = PAGE) -> bool:
        """Mount messages before the first; False when there are none."""
        views = self.views
        if not (self._has_older and views) or self._loading_older:
            return False
        self._loading_older = True
        try:
            older = self._older(views[0].stored.id, count)
            self._has_older = len(older) == count
            await self.mount_all((view_of(stored) for stored in older), before=0)
            return bool(older)
        finally:
            self._loading_older = False

    # -- where the view stands

    def jump_to_end(self) -> None:
        self.following = True
        self.scroll_end(animate=False, immediate=True)

    def action_scroll_lines(self, lines: int) -> None:
        self.scroll_relative(y=lines, animate=False, immediate=True)

    def action_jump_to_top(self) -> None:
        self.scroll_home(animate=False, immediate=True)

    def action_jump_to_end(self) -> None:
        self.select(None)
        self.jump_to_end()

    def arrange(self, size: Size, optimal: bool = False) -> DockArrangeResult:
        result = super().arrange(size, optimal)
        self._placements = result.placements
        if not optimal:
            self._stay(max(0, result.total_region.bottom - size.height))
        return result

    def _stay(self, end: int) -> None:
        """Move to where the reader is, in the layout under way; ``end`` is the end of the scroll."""
        scroll_y = float(end)
        if not self.following:
            held, scrolled = self._held or (None, 0.0)
            top = next((p.region.y for p in self._placements if p.widget is held), None)
            scroll_y = self.scroll_y if top is None else min(max(0.0, top + scrolled), float(end))
        if round(scroll_y) != round(self.scroll_y):
            # As Textual's own anchor does: without watchers, which would ask for another layout.
            self.set_reactive(Widget.scroll_y, scroll_y)
            self.set_reactive(Widget.scroll_target_y, scroll_y)
            self.vertical_scrollbar.set_reactive(ScrollBar.position, scroll_y)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.following = new_value >= self.max_scroll_y
        first = next((p for p in self._placements if p.region.bottom > new_value), None)
        self._held = (first.widget, new_value - first.region.y) if first and first.widget else None
        if new_value < old_value and new_value < self.size.height and self._has_older:
            self.run_worker(self.load_older(), group="older", exclusive=False)

    # -- the message keys act on

    def select(self, view: MessageView | None) -> None:
        if self.selected and self.selected.is_attached:
            self.selected.select(False)
        self.selected = view
        if view:
            view.select(True)
            self.scroll_to_widget(view, animate=False, immediate=True)
        self.post_message(self.Selected())

    async def select_step(self, step: int) -> None:
        """Select the message before or after; past the end nothing is selected."""
        views = self.views
        at = views.index(self.selected) if self.selected in views else len(views)
        if at + step < 0 and await self.load_older():
            views = self.views
            at = views.index(self.selected) if self.selected in views else len(views)
        at = max(0, at + step)
        self.select(views[at] if at < len(views) else None)
        if not self.selected:
            self.jump_to_end()

    def last_user(self) -> MessageView | None:
        return next((view for view in reversed(self.views) if view.stored.role == "user"), None)

    def last_reply(self) -> ReplyView | None:
        return next((view for view in reversed(self.views) if isinstance(view, ReplyView)), None)
