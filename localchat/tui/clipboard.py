"""Copying, whatever the terminal and the machine can do.

Owns the order: OSC 52 (works over SSH, but never answers), then the machine's
own tool, then words. Never raises: a copy that fails is a notice.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping
from typing import Any

from textual.app import App

TOOL_TIMEOUT_S = 2.0


def native_tool(environ: Mapping[str, str] = os.environ) -> list[str] | None:
    """The command that takes text for the clipboard, or None."""
    candidates = [["pbcopy"]]
    if environ.get("WAYLAND_DISPLAY"):
        candidates.append(["wl-copy"])
    if environ.get("DISPLAY"):
        candidates += [["xclip", "-selection", "clipboard"], ["xsel", "--clipboard", "--input"]]
    return next((command for command in candidates if shutil.which(command[0])), None)


async def copy(app: App[Any], text: str, what: str) -> None:
    """Put ``text`` on the clipboard and say so; ``what`` names it."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    app.copy_to_clipboard(text)
    tool = native_tool()
    if tool is None:
        app.notify(f"Copied {what} through the terminal.", markup=False)
    elif await _run(tool, text):
        app.notify(f"Copied {what}.", markup=False)
    else:
        app.notify(f"{tool[0]} failed; copied {what} through the terminal only.", markup=False)


async def _run(command: list[str], text: str) -> bool:
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        await asyncio.wait_for(process.communicate(text.encode()), TOOL_TIMEOUT_S)
        return process.returncode == 0
    except (OSError, TimeoutError):
        return False
