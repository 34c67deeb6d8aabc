"""Makes docs/screen.svg: the chat's screen after a real turn of the default model.

Run by hand when the screen has changed: ``.venv/bin/python -m scripts.picture``.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from localchat.compose import build
from localchat.paths import Paths
from localchat.settings import Settings
from localchat.tui.app import ChatApp

QUESTIONS = (
    "Write a short Python function that reverses a string. Show only the code.",
    "What is the capital of France?",
)
SIZE = (96, 30)


async def picture() -> str:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        settings = Settings(sampling=replace(Settings().sampling, temperature=0.0, max_tokens=120))
        app = ChatApp(build(settings, Paths(root, root, root), incognito=True))
        async with app.run_test(size=SIZE) as pilot:
            for question in QUESTIONS:
                app.chat.prompt.text = question
                await pilot.press("enter")
                await pilot.pause(0.5)
                while app.chat.turns.running:
                    await pilot.pause(0.2)
                await pilot.pause(0.5)
            # The picture names a web font; the reader's own monospace one will do.
            return re.sub(
                r"@font-face \{.*?\}", "", app.export_screenshot(title="localchat"), flags=re.DOTALL
            )


if __name__ == "__main__":
    Path("docs/screen.svg").write_text(asyncio.run(picture()), encoding="utf-8")
