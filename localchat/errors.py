"""What can go wrong around the chat, each with the next step."""

from __future__ import annotations


class LocalchatError(Exception):
    """Ends a command with exit code 1. ``str()`` says what happened and what to do."""

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(f"{message} {next_step}".rstrip())


class UsageError(LocalchatError):
    """The command line or a setting is wrong: exit code 2."""


class WeightsError(LocalchatError):
    """A model file cannot be found, fetched, verified or read."""


class HistoryError(LocalchatError):
    """The store of conversations cannot be opened or written."""
