"""The terminal app over one Program.

Owns starting, quitting, the theme and the command palette. Everything a person
sees in between is the chat screen's.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input, TextArea

from localchat.tui.chat import ChatScreen
from localchat.tui.command_runner import THEME_NAMES
from localchat.tui.commands import COMMANDS, Call
from localchat.tui.keyboard import teach_newline_keys

if TYPE_CHECKING:
    from localchat.compose import Program

QUIT_WITHIN_S = 3.0


class ChatApp(App[None]):
    TITLE = "localchat"
    CSS_PATH = "app.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Copy or quit", priority=True, show=False),
    ]

    def __init__(self, program: Program, initial_conversation: int | None = None) -> None:
        teach_newline_keys()
        super().__init__()
        self.program = program
        self.chat = ChatScreen(program, initial_conversation)
        self._may_quit = False
        theme = program.settings.ui.theme
        if (theme := THEME_NAMES.get(theme, theme)) in self.available_themes:
            self.theme = theme

    def get_default_screen(self) -> ChatScreen:
        return self.chat

    # -- leaving

    async def action_interrupt(self) -> None:
        """Ctrl+C copies a selection; without one, the second press quits."""
        if text := self._selected_text():
            from localchat.tui import clipboard

            await clipboard.copy(self, text, "the selection")
        elif self._may_quit:
            await self.action_quit()
        else:
            self._may_quit = True
            self.set_timer(QUIT_WITHIN_S, self._keep_running)
            self.notify("Press ctrl+c again to quit.", timeout=QUIT_WITHIN_S, markup=False)

    def _keep_running(self) -> None:
        self._may_quit = False

    def _selected_text(self) -> str:
        focused = self.focused
        if isinstance(focused, TextArea | Input) and focused.selected_text:
            return focused.selected_text
        return self.screen.get_selected_text() or ""

    async def action_quit(self) -> None:
        await self.chat.leave()
        self.exit()

    async def on_unmount(self) -> None:
        """However the app ends: the reply is stopped and saved before the store is closed."""
        await self.chat.leave()
        await self.program.close()

    # -- the command palette

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        if screen is not self.chat:
            return
        for command in COMMANDS:
            title = f"/{command.name}" + (f"  {command.key}" if command.key else "")
            call = Call(command.name, "", command)
            yield SystemCommand(title, command.help, partial(self.chat.run_command, call))


def run_app(program: Program, inline: bool = False, initial_conversation: int | None = None) -> None:
    """Chat until the person quits; the terminal is then as it was."""
    ChatApp(program, initial_conversation).run(inline=inline)
