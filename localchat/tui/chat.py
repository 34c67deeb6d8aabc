"""The chat: transcript, prompt and status on one screen.

Owns the verbs of a chat (send, stop, open, edit, regenerate) and which part
does what. Turns run in ``turns``, commands in ``command_runner``, keys on
messages in ``message_keys``; panels are screens of their own.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Static

from localchat.errors import LocalchatError
from localchat.history import StoredMessage
from localchat.tui.attachments import mentioned_files, read_text_file, with_attachments
from localchat.tui.commands import Call, parse
from localchat.tui.completion import CompletionList
from localchat.tui.estimate import Estimate
from localchat.tui.message import MessageView
from localchat.tui.message_keys import HINTS as MESSAGE_HINTS
from localchat.tui.message_keys import MessageKeys
from localchat.tui.panels import Panels
from localchat.tui.pastes import size_text
from localchat.tui.prompt import Prompt
from localchat.tui.routes import Routes
from localchat.tui.safe_text import displayable, one_line
from localchat.tui.status import StatusLine
from localchat.tui.transcript import WINDOW, Transcript
from localchat.tui.turns import Turns
from router.decision import Mode
from router.errors import ContextOverflow, RouterError

if TYPE_CHECKING:
    from localchat.compose import Program

TYPING_PAUSES_AFTER_S = 0.5
HINTS = "enter send  esc stop  ^o conversations  ^p commands  f5 route  f1 help"
WELCOME = """\
{where}

/ for commands   @ to attach a file   ctrl+o for earlier conversations"""


class ChatScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop the reply"),
        Binding("ctrl+up", "select_message(-1)", "Previous message", priority=True),
        Binding("ctrl+down", "select_message(1)", "Next message", priority=True),
        Binding("ctrl+end", "jump_to_end", "Jump to the end", priority=True),
        Binding("ctrl+o", "command('search')", "Conversations", priority=True),
        Binding("ctrl+n", "command('new')", "New conversation", priority=True),
        Binding("ctrl+r", "command('regenerate')", "Answer again", priority=True),
        Binding("ctrl+t", "message('toggle_reasoning')", "Show the reasoning", priority=True),
        Binding("f1", "command('help')", "Help", priority=True),
        Binding("f2", "command('model')", "Models", priority=True),
        Binding("f3", "command('params')", "Parameters", priority=True),
        Binding("f4", "command('speed')", "Speed", priority=True),
        Binding("f5", "next_mode", "Local, auto or cloud", priority=True),
    ]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (60, "-normal"), (110, "-wide")]  # noqa: RUF012 # as in the parent
    VERTICAL_BREAKPOINTS = [(0, "-short"), (14, "-tall")]  # noqa: RUF012 # likewise

    def __init__(self, program: Program, initial_conversation: int | None) -> None:
        from localchat.tui.command_runner import CommandRunner

        super().__init__()
        self.program = program
        self.session = program.session
        self._initial_conversation = initial_conversation
        self.transcript = Transcript(self._older, program.settings.ui.vim)
        self.completions = CompletionList()
        self.prompt = Prompt(self.completions, self._earlier_prompts, Path.cwd())
        self.status = StatusLine()
        self.turns = Turns(self)
        self.message_keys = MessageKeys(self)
        self.panels = Panels(self)
        self.routes = Routes(self)
        self._estimate = Estimate(self)
        self._commands = CommandRunner(self)
        self._editing: StoredMessage | None = None
        self._sent = ""
        self._draft_timer: Timer | None = None
        self._title = Static(id="title", markup=False)
        self._chips = Static(id="chips", markup=False)
        self._hints = Static(Content(HINTS), id="hints", markup=False)

    def compose(self) -> ComposeResult:
        yield self._title
        yield self.transcript
        yield self.completions
        with Vertical(id="bottom"):
            with Vertical(id="prompt-box"):
                yield self._chips
                yield self.prompt
            yield self.status
            yield self._hints

    def on_mount(self) -> None:
        self._chips.display = False
        self.prompt.focus()
        self.turns.show_model()
        if self.program.routing:
            self.program.routing.ask_person = self.routes.ask_before_leaving
        self.routes.show()
        self.call_after_refresh(self._after_first_paint)

    async def _after_first_paint(self) -> None:
        self.turns.load_model()
        try:
            if self._initial_conversation is not None:
                self.session.open(self._initial_conversation)
            await self.show_conversation()
        except LocalchatError as error:
            self.notify_error(error)
        # The first reply should not wait for the Markdown parser to be imported.
        await asyncio.to_thread(importlib.import_module, "localchat.tui.prose")
        await self._estimate.prepare()

    # -- the conversation

    async def show_conversation(self) -> None:
        """Show another conversation, where the session stands, with its draft."""
        self._end_edit()
        self.prompt.restore(self.program.history.draft(self.draft_key))
        await self.show_messages()

    async def show_messages(self) -> None:
        """Show where the session stands; what is being written stays."""
        if self._editing:
            self._leave_edit()
        leaf = self.session.leaf_id
        messages = self.program.history.path_tail(leaf, WINDOW) if leaf is not None else []
        self.show_title()
        self.routes.show()
        self.turns.show_usage(messages)
        await self.transcript.show(messages, WELCOME.format(where=self.routes.promise()))

    async def idle(self) -> bool:
        """Stop a running turn: what comes next changes where the conversation stands."""
        if self.turns.running:
            await self.turns.stop()
        return True

    async def new_conversation(self) -> None:
        await self.idle()
        self.save_draft()
        self.session.start_new()
        await self.show_conversation()
        self.prompt.focus()

    def show_title(self) -> None:
        info = self.session.conversation
        title = one_line(info.title) if info and info.title else "New conversation"
        self._title.update(Content(title), layout=False)

    def refresh_messages(self, message_ids: Sequence[int]) -> None:
        """Show again what has changed around these messages."""
        for message_id in message_ids:
            if view := self.transcript.view(message_id):
                view.take(self.program.history.message(message_id))

    def _older(self, message_id: int, count: int) -> Sequence[StoredMessage]:
        try:
            return self.program.history.path_tail(message_id, count + 1)[:-1]
        except LocalchatError as error:
            self.notify_error(error)
            return ()

    def _earlier_prompts(self) -> Sequence[str]:
        try:
            return [m.content for m in reversed(self.session.transcript()) if m.role == "user"]
        except LocalchatError as error:
            self.notify_error(error)
            return ()

    # -- sending and stopping

    async def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        if call := parse(event.text):
            if call.command:
                self.prompt.clear_sent()
            await self._commands.run(call)
        else:
            await self.send(event.text)

    async def send(self, text: str, mode: Mode | None = None) -> None:
        """``mode`` says who answers this one message."""
        if self.turns.running:
            self.tell("The reply is still being written. Esc stops it.")
            return
        self._sent = text
        try:
            files = mentioned_files(text, self.prompt.folder)
            text = with_attachments(text, [await asyncio.to_thread(read_text_file, f) for f in files])
        except LocalchatError as error:
            self.notify_error(error)
            return
        editing = self._editing
        self.transcript.jump_to_end()
        if editing is None:
            self.prompt.clear_sent()
            self.save_draft()
            self.turns.start(self.session.send(text, mode))
        else:
            self._leave_edit()
            await self.transcript.cut_from(editing.id)
            self.turns.start(self.session.edit(editing.id, text))

    async def go_on(self, reply: StoredMessage) -> None:
        """Continue an unfinished reply in place."""
        await self.idle()
        await self.transcript.cut_from(reply.id)
        self.transcript.jump_to_end()
        self.turns.start(self.session.go_on(reply.id))

    async def regenerate(
        self, message: StoredMessage, mode: Mode | None = None, *, fresh: bool = True
    ) -> None:
        await self.idle()
        if message.role == "user":
            await self.transcript.cut_after(message.id)
        else:
            await self.transcript.cut_from(message.id)
        self.transcript.select(None)
        self.transcript.jump_to_end()
        self.prompt.focus()
        self.turns.start(self.session.regenerate(message.id, mode, fresh=fresh))

    def begin_edit(self, message: StoredMessage) -> None:
        self.save_draft()
        self._editing = message
        self.query_one("#prompt-box").border_title = "Editing, esc cancels"
        self.prompt.put(message.content)
        self.prompt.focus()

    def _leave_edit(self) -> None:
        """What was being written before the edit comes back."""
        self._end_edit()
        self.prompt.restore(self.program.history.draft(self.draft_key))

    def _end_edit(self) -> None:
        self._editing = None
        self.query_one("#prompt-box").border_title = None

    async def turn_ended(self, stored: StoredMessage | None, error: RouterError | None) -> None:
        """After each turn; ``stored`` is None where nothing could be saved."""
        if stored is None and not self.prompt.text:
            self.prompt.put(self._sent)  # it could not be saved: nothing typed is lost
        self.show_title()
        self.routes.show()
        try:
            if isinstance(error, ContextOverflow):
                await self.panels.offer_room(error)
            elif error:
                self.notify_error(error)
        except (LocalchatError, RouterError) as failure:
            self.notify_error(failure)

    async def action_stop(self) -> None:
        if self.turns.running:
            self.run_worker(self.turns.stop(), group="stop")  # keys keep working until the model has stopped
        elif self._editing:
            self._leave_edit()
        self.transcript.select(None)
        self.prompt.focus()

    async def leave(self) -> None:
        """Before the program ends: nothing keeps running, nothing typed is lost."""
        await self.turns.leave()
        self.save_draft()

    # -- keys

    async def action_command(self, name: str) -> None:
        if call := parse(f"/{name}"):
            await self.run_command(call)

    async def run_command(self, call: Call) -> None:
        await self._commands.run(call)

    async def action_message(self, key: str, *arguments: int | bool) -> None:
        try:
            outcome = getattr(self.message_keys, key)(*arguments)
            if outcome is not None:
                await outcome
        except LocalchatError as error:
            self.notify_error(error)

    def action_next_mode(self) -> None:
        self.routes.next_mode()

    async def action_select_message(self, step: int) -> None:
        await self.transcript.select_step(step)
        (self.transcript if self.transcript.selected else self.prompt).focus()

    def action_jump_to_end(self) -> None:
        self.transcript.jump_to_end()

    def on_message_view_picked(self, event: MessageView.Picked) -> None:
        self.transcript.select(event.view)
        self.transcript.focus()

    def on_transcript_selected(self) -> None:
        self._hints.update(Content(MESSAGE_HINTS if self.transcript.selected else HINTS), layout=False)

    # -- drafts

    @property
    def draft_key(self) -> int | None:
        return self.session.conversation.id if self.session.conversation else None

    def on_text_area_changed(self) -> None:
        self._show_chips()
        if self._draft_timer:
            self._draft_timer.stop()
        self._draft_timer = self.set_timer(TYPING_PAUSES_AFTER_S, self.typing_paused)

    def typing_paused(self) -> None:
        self.save_draft()
        if not self.turns.running:
            self._estimate.typing_paused(self.turns.typed(self._typed_bytes()))

    def _typed_bytes(self) -> int:
        """Of what would be sent, files included; none of a command, or of an edit, which goes elsewhere."""
        text = self.prompt.full_text
        if self._editing or not text.strip() or parse(text):
            return 0
        files = mentioned_files(text, self.prompt.folder) if "@" in text else []
        return len(text.encode()) + sum(file.stat().st_size for file in files)

    def save_draft(self) -> None:
        if self._draft_timer:
            self._draft_timer.stop()
            self._draft_timer = None
        if self._editing:
            return  # an edit in progress is not the draft of the next message
        try:
            self.program.history.save_draft(self.draft_key, self.prompt.draft)
        except LocalchatError as error:
            self.notify_error(error)

    def _show_chips(self) -> None:
        """The files that will go along, above the text."""
        text = self.prompt.text
        files = mentioned_files(text, self.prompt.folder) if "@" in text else []
        self._chips.display = bool(files)
        if files:
            labels = [f"+ {one_line(f.name, 40)} ({size_text(f.stat().st_size)})" for f in files]
            self._chips.update(Content("  ".join(labels)))

    # -- words

    def tell(self, text: str, severity: Literal["information", "warning"] = "information") -> None:
        self.notify(displayable(text), severity=severity, markup=False)

    def notify_error(self, error: Exception) -> None:
        self.notify(displayable(str(error)), severity="error", timeout=10, markup=False)
