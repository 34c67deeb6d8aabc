"""Quitting, copying, and being idle."""

import asyncio
from typing import Any

import pytest
from textual.timer import Timer

from localchat.history import History
from localchat.tui import clipboard


async def test_ctrl_c_hints_and_twice_quits_keeping_the_draft(chatting: Any, notices: Any) -> None:
    async with chatting() as (chat, pilot):
        history = chat.program.history
        closed = []
        history.close = lambda: closed.append(True)
        await pilot.press(*"draft", "ctrl+c")
        assert notices(chat) == ["Press ctrl+c again to quit."]
        assert chat.prompt.text == "draft"
        await pilot.press("ctrl+c")
        assert chat.app._exit
    assert closed
    assert history.draft(None) == "draft"


async def test_ctrl_c_copies_a_selection_instead(chatting: Any, notices: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press(*"draft")
        chat.prompt.select_all()
        await pilot.press("ctrl+c")
        assert chat.app.clipboard == "draft"
        assert "again to quit" not in notices(chat)[-1]


async def test_quitting_stops_the_reply_and_keeps_it(chatting: Any, gated: Any, until: Any) -> None:
    model = gated("Partial")
    async with chatting(model=model) as (chat, pilot):
        history = chat.program.history
        history.close = lambda: None
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query("OpenBlock"))
        await pilot.press("ctrl+q")
    assert model.stopped == 1
    assert not model.loaded
    last = history.path(history.latest().leaf_id)[-1]
    assert (last.content, last.state) == ("Partial", "stopped")


async def test_nothing_runs_and_nothing_is_painted_when_idle(
    chatting: Any, say: Any, until: Any, monkeypatch: Any
) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        await until(pilot, lambda: not chat._draft_timer or chat.program.history.draft(1) == "")
        await asyncio.sleep(0.6)
        painted: list[Any] = []
        monkeypatch.setattr(chat.app, "_display", lambda *_: painted.append(1))
        ticks: list[Timer] = []
        original = Timer._tick

        async def tick(self: Timer, **kwargs: Any) -> None:
            ticks.append(self)
            await original(self, **kwargs)

        monkeypatch.setattr(Timer, "_tick", tick)
        await asyncio.sleep(0.8)
        assert not painted
        assert not ticks


async def test_a_copy_without_any_tool_is_a_notice(chatting: Any, notices: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(clipboard, "native_tool", lambda: None)
    async with chatting() as (chat, pilot):
        await clipboard.copy(chat.app, "text \ud800", "it")
        await pilot.pause()
        assert chat.app.clipboard == "text ?"
        assert notices(chat)[-1] == "Copied it through the terminal."


@pytest.mark.parametrize(
    ("tool", "said"),
    [(["true"], "Copied it."), (["false"], "false failed"), (["no-such-tool"], "no-such-tool failed")],
)
async def test_a_copy_tool_may_work_or_fail(
    chatting: Any, notices: Any, monkeypatch: Any, tool: list[str], said: str
) -> None:
    monkeypatch.setattr(clipboard, "native_tool", lambda: tool)
    async with chatting() as (chat, pilot):
        await clipboard.copy(chat.app, "text", "it")
        await pilot.pause()
        assert notices(chat)[-1].startswith(said)


def test_native_tools_follow_the_session(monkeypatch: Any) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None if name == "pbcopy" else f"/bin/{name}")
    assert clipboard.native_tool({}) is None
    assert clipboard.native_tool({"WAYLAND_DISPLAY": "w", "DISPLAY": ":0"}) == ["wl-copy"]
    assert clipboard.native_tool({"DISPLAY": ":0"}) == ["xclip", "-selection", "clipboard"]


async def test_an_abrupt_end_saves_the_reply_and_the_draft(
    chatting: Any, make_program: Any, gated: Any, until: Any, tmp_path: Any
) -> None:
    model = gated("Partial")
    program = make_program(model=model, history=History(tmp_path / "h.db"))
    async with chatting(program=program) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query("OpenBlock"))
        await pilot.press(*"next")
        chat.app.exit()
    history = History(tmp_path / "h.db")
    last = history.path(history.latest().leaf_id)[-1]
    assert (last.content, last.state) == ("Partial", "stopped")
    assert history.draft(last.conversation_id) == "next"
    history.close()
