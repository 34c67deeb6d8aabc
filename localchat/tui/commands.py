"""The slash commands, as data.

Owns their names and words. What a command does is in ``command_runner``; the
palette, the completion and the help read this table too.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    argument: str
    help: str
    key: str = ""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument}".rstrip()


COMMANDS = (
    Command("help", "", "Keys and commands", "f1"),
    Command("new", "", "Start a new conversation", "ctrl+n"),
    Command("search", "[TEXT]", "Conversations: open, search, rename, delete", "ctrl+o"),
    Command("model", "[NAME]", "Choose or download a model", "f2"),
    Command("params", "", "Sampling parameters", "f3"),
    Command("system", "[TEXT]", "System prompt of this conversation", "f3"),
    Command("speed", "", "Predicted and measured speed, and where the time went", "f4"),
    Command("local", "[TEXT]", "Answer on this machine: this message, or from now on", "f5"),
    Command("auto", "[TEXT]", "Let each question go where it is answered better", "f5"),
    Command("cloud", "[TEXT]", "Answer in the cloud: this message, or from now on", "f5"),
    Command("redo", "", "Ask the other side too, as a new branch"),
    Command("reject", "", "Not this stored answer: remove it and ask again"),
    Command("why", "", "Where the last answer came from, and what else it could have cost"),
    Command("preview", "TEXT", "Exactly what would leave this machine with a message"),
    Command("pin", "", "Keep this conversation on this machine, whatever the mode"),
    Command("regenerate", "", "Answer again, as a new branch", "ctrl+r"),
    Command("edit", "", "Edit your last message, as a new branch"),
    Command("continue", "", "Go on with an unfinished reply where it stopped"),
    Command("copy", "[NUMBER]", "Copy the last reply, or one of its code blocks"),
    Command("export", "[md|json] [FILE]", "Write this conversation to a file"),
    Command("attach", "FILE", "Attach a text file to the next message"),
    Command("drop", "[COUNT]", "Leave the oldest messages out of the context"),
    Command("summarise", "[COUNT]", "Replace the oldest messages by a summary"),
    Command("schema", "FILE|off", "Answer in JSON that follows a schema"),
    Command("rename", "TITLE", "Name this conversation"),
    Command("delete", "", "Delete this conversation"),
    Command("theme", "[NAME]", "Change the colours"),
    Command("quit", "", "Leave localchat", "ctrl+q"),
)
_BY_NAME = {command.name: command for command in COMMANDS}


@dataclass(frozen=True, slots=True)
class Call:
    """A typed command: ``command`` is None when there is no such one."""

    name: str
    argument: str
    command: Command | None


def parse(text: str) -> Call | None:
    """The command that ``text`` is, or None: a message. A leading space makes it a message."""
    if not text.startswith("/") or text.startswith("//"):
        return None
    name, _, argument = text[1:].partition(" ")
    if not name or "\n" in name:
        return None
    return Call(name, argument.strip(), _BY_NAME.get(name))


def suggestion(name: str) -> str:
    """What to say about a command that does not exist."""
    near = difflib.get_close_matches(name, _BY_NAME, n=1, cutoff=0.4)
    hint = f" Did you mean /{near[0]}?" if near else " /help lists all."
    return f"There is no command /{name}.{hint} To send it as text, put a space before it."


def starting_with(prefix: str) -> list[Command]:
    return [command for command in COMMANDS if command.name.startswith(prefix)]
