"""What each slash command does.

One method a command, ``do_`` and its name. Knows the chat's verbs; the commands'
names and help are data in ``commands``.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.errors import LocalchatError, UsageError
from localchat.tui.attachments import mention, read_text_file
from localchat.tui.commands import Call, suggestion
from localchat.tui.help import HelpPanel
from localchat.tui.panel import Confirm
from localchat.tui.safe_text import one_line
from router.errors import RouterError
from router.request import ResponseFormat

if TYPE_CHECKING:
    from localchat.tui.chat import ChatScreen

THEME_NAMES = {"textual-ansi": "ansi-dark", "ansi": "ansi-dark"}


class CommandRunner:
    def __init__(self, chat: ChatScreen) -> None:
        self._chat = chat

    async def run(self, call: Call) -> None:
        if call.command is None:
            self._chat.tell(suggestion(call.name), "warning")
            return
        try:
            await getattr(self, f"do_{call.name}")(call.argument)
        except (LocalchatError, RouterError) as error:
            self._chat.notify_error(error)

    async def do_help(self, _: str) -> None:
        self._chat.app.push_screen(HelpPanel(self._chat.program.settings.ui.vim))

    async def do_new(self, _: str) -> None:
        await self._chat.new_conversation()

    async def do_search(self, text: str) -> None:
        self._chat.panels.conversations(text)

    async def do_model(self, name: str) -> None:
        if name:
            await self._chat.panels.use_model(name)
        else:
            self._chat.panels.models()

    async def do_params(self, _: str) -> None:
        self._chat.panels.parameters()

    async def do_speed(self, _: str) -> None:
        self._chat.panels.speed()

    async def do_system(self, text: str) -> None:
        if text:
            self._chat.session.system = text
            self._chat.tell("System prompt set.")
        else:
            self._chat.panels.parameters("system")

    async def do_local(self, text: str) -> None:
        await self._chat.routes.use("local", text)

    async def do_auto(self, text: str) -> None:
        await self._chat.routes.use("auto", text)

    async def do_cloud(self, text: str) -> None:
        await self._chat.routes.use("cloud", text)

    async def do_redo(self, _: str) -> None:
        await self._chat.message_keys.redo()

    async def do_reject(self, _: str) -> None:
        await self._chat.message_keys.reject()

    async def do_why(self, _: str) -> None:
        await self._chat.message_keys.why()

    async def do_preview(self, text: str) -> None:
        if not text:
            raise UsageError("/preview needs the message it is about.")
        self._chat.routes.preview(text)

    async def do_pin(self, _: str) -> None:
        self._chat.routes.pin()

    async def do_regenerate(self, _: str) -> None:
        await self._chat.message_keys.regenerate()

    async def do_edit(self, _: str) -> None:
        self._chat.message_keys.edit()

    async def do_copy(self, number: str) -> None:
        if number.isdigit() and int(number):
            await self._chat.message_keys.copy_block(int(number))
        else:
            await self._chat.message_keys.copy()

    async def do_attach(self, name: str) -> None:
        path = self._chat.prompt.path(name)
        await asyncio.to_thread(read_text_file, path)  # refuses what cannot go along, now
        self._chat.prompt.put(f"{mention(name)} ")

    async def do_export(self, argument: str) -> None:
        from localchat.export import to_json, to_markdown

        info = self._chat.session.conversation
        if info is None:
            raise UsageError("There is nothing to export yet.")
        kind, name = _export_target(argument, info.title)
        if kind == "md":
            text = to_markdown(info, self._chat.session.transcript())
        else:
            text = _json(to_json(info, self._chat.program.history.tree(info.id)))
        path = self._chat.prompt.path(name)
        await asyncio.to_thread(_write_new, path, text)
        self._chat.tell(f"Exported to {path}")

    async def do_drop(self, argument: str) -> None:
        ids = self._oldest(argument)
        self._chat.session.room.drop(ids)
        self._chat.refresh_messages(ids)
        self._chat.tell(f"Left out {len(ids)} messages. Select one and press x to take it back in.")

    async def do_summarise(self, argument: str) -> None:
        await self._chat.panels.summarise(self._oldest(argument))

    async def do_schema(self, argument: str) -> None:
        if not argument:
            raise UsageError("/schema needs a file or off.")
        if argument == "off":
            self._chat.session.response_format = None
            self._chat.tell("Replies are free text again.")
            return
        path = self._chat.prompt.path(argument)
        schema = (await asyncio.to_thread(read_text_file, path)).text
        try:
            json.loads(schema)
        except ValueError as error:
            raise UsageError(f"{path.name} is not JSON: {error}.") from error
        self._chat.session.response_format = ResponseFormat("json_schema", schema)
        self._chat.tell(f"Replies now follow {path.name}. /schema off ends it.")

    async def do_rename(self, title: str) -> None:
        info = self._chat.session.conversation
        if info is None or not title:
            raise UsageError("/rename needs a title." if info else "There is no conversation to rename yet.")
        self._chat.program.history.rename(info.id, title)
        self._chat.session.open(info.id)
        self._chat.show_title()

    async def do_delete(self, _: str) -> None:
        info = self._chat.session.conversation
        if info is None:
            raise UsageError("There is no conversation to delete yet.")
        question = Confirm("Delete this conversation with all its branches?", one_line(info.title))
        self._chat.app.push_screen(question, self._chat.panels.delete_if)

    async def do_theme(self, name: str) -> None:
        name = THEME_NAMES.get(name, name)
        if not name:
            self._chat.app.search_themes()
        elif name in self._chat.app.available_themes:
            self._chat.app.theme = name
        else:
            raise UsageError(f"There is no theme {name}.", "/theme lists all.")

    async def do_quit(self, _: str) -> None:
        await self._chat.app.run_action("quit")

    async def do_continue(self, _: str) -> None:
        view = self._chat.transcript.last_reply()
        if view is None or view.stored.id != self._chat.session.leaf_id:
            raise UsageError("There is no reply to go on with.")
        await self._chat.go_on(view.stored)

    def _oldest(self, argument: str) -> list[int]:
        """The ids of the oldest ``argument`` (2) messages that are not left out yet."""
        if argument and not argument.isdigit():
            raise UsageError("It takes a number of messages.")
        kept = [m.id for m in self._chat.session.transcript() if not m.excluded]
        ids = kept[: int(argument or 2)]
        if not ids:
            raise UsageError("There is nothing to leave out.")
        return ids


def _export_target(argument: str, title: str) -> tuple[str, str]:
    """(format, file name) of ``/export [md|json] [FILE]``."""
    first, _, rest = argument.partition(" ")
    kind, name = (first, rest.strip()) if first in ("md", "json") else ("", argument)
    kind = kind or ("json" if name.endswith(".json") else "md")
    stem = re.sub(r"[^\w.-]+", "-", title).strip("-.")[:40] or "conversation"
    return kind, name or f"{stem}.{kind}"


def _json(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _write_new(path: Path, text: str) -> None:
    """Never over an existing file."""
    try:
        with path.open("x", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except FileExistsError as error:
        raise UsageError(f"{path} exists already.", "Give another name: /export md FILE") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}.") from error
