"""Any size, any script, any theme: nothing breaks."""

from typing import Any

import pytest

WORLD = (
    "漢字かな 한국어 שלום עולם مرحبا 👩‍💻👨‍👩‍👧 e\u0301a\u0308 ไทย हिन्दी " * 4
    + "\n\n- 語\n- שלום\n\n| 漢 | 字 |\n|---|---|\n| 👍 | é |\n"
)


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
async def test_it_works_in_little_room(chatting: Any, say: Any, size: tuple[int, int]) -> None:
    async with chatting([WORLD], size=size) as (chat, pilot):
        await say(chat, pilot, WORLD)
        assert chat.prompt.region.height >= 1
        assert chat.prompt.region.bottom <= size[1]
        for key in (
            "ctrl+o",
            "escape",
            "f1",
            "escape",
            "f2",
            "escape",
            "f3",
            "escape",
            "f4",
            "escape",
            "ctrl+up",
            "escape",
        ):
            await pilot.press(key)
        assert chat.app.screen is chat


async def test_it_survives_being_resized_to_a_single_cell(chatting: Any, gated: Any, until: Any) -> None:
    model = gated(*[WORLD[i : i + 7] for i in range(0, len(WORLD), 7)])
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query("OpenBlock"))
        for size in ((1, 1), (3, 2), (200, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        model.gate.set()
        await until(pilot, lambda: not chat.turns.running)
        assert chat.transcript.last_reply().stored.content == WORLD


async def test_panels_survive_a_single_cell(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        for panel in ("ctrl+o", "f1", "f2", "f3", "f4", "ctrl+p"):
            await pilot.press(panel)
            await pilot.resize_terminal(1, 1)
            await pilot.resize_terminal(80, 24)
            await pilot.press("escape")
            await pilot.pause()
            assert chat.app.screen is chat


async def test_every_theme_paints(chatting: Any, say: Any) -> None:
    async with chatting(["# H\n\n`code`\n\n```py\nx = 1\n```\n"]) as (chat, pilot):
        await say(chat, pilot, "Hi")
        for theme in chat.app.available_themes:
            chat.app.theme = theme
            await pilot.pause()
