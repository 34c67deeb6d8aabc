"""Keys that Textual's parser does not tell apart by itself.

Terminals without the Kitty protocol send alt+enter as ESC CR, which Textual
reads as enter: a message would be sent where a new line was meant.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS

NEWLINE_KEYS = ("shift+enter", "alt+enter", "ctrl+j", "alt+ctrl+j")


class _MoreKeys(StrEnum):
    AltEnter = "alt+enter"
    AltControlJ = "alt+ctrl+j"


def teach_newline_keys() -> None:
    """Make alt+enter a key of its own. Idempotent."""
    sequences = cast("dict[str, Any]", ANSI_SEQUENCES_KEYS)
    sequences["\x1b\r"] = (_MoreKeys.AltEnter,)
    sequences["\x1b\n"] = (_MoreKeys.AltControlJ,)
