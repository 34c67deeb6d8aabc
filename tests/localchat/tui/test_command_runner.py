"""The slash commands that have no test file of their own."""

import json
from pathlib import Path
from typing import Any


async def test_unknown_commands_suggest_and_are_not_sent(chatting: Any, say: Any, notices: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "/regenrate")
        assert "Did you mean /regenerate?" in notices(chat)[-1]
        assert chat.session.conversation is None
        assert chat.prompt.text == "/regenrate"


async def test_help_lists_keys_and_commands(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("f1")
        page = chat.app.screen._page().plain
        assert "/export [md|json] [FILE]" in page
        assert "ctrl+up" in page


async def test_question_mark_is_help_in_the_transcript(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        await pilot.press("ctrl+up", "question_mark")
        assert type(chat.app.screen).__name__ == "HelpPanel"


async def test_export_markdown_and_json_and_never_over_a_file(
    chatting: Any, say: Any, notices: Any, tmp_path: Path
) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "/export")
        assert "nothing to export" in notices(chat)[-1]
        await say(chat, pilot, "What is up?")
        await say(chat, pilot, "/export")
        assert (tmp_path / "What-is-up.md").read_text().startswith("# What is up?")
        await say(chat, pilot, "/export json out.json")
        document = json.loads((tmp_path / "out.json").read_text())
        assert [m["content"] for m in document["messages"]] == ["What is up?", "Hello there."]
        await say(chat, pilot, "/export md out.json")
        assert "exists already" in notices(chat)[-1]


async def test_schema_constrains_until_it_is_off(
    chatting: Any, say: Any, notices: Any, tmp_path: Path
) -> None:
    (tmp_path / "s.json").write_text('{"type": "object"}')
    (tmp_path / "bad.json").write_text("{")
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "/schema s.json")
        await say(chat, pilot, "Hi")
        assert chat.program.model.requests[-1].response_format.kind == "json_schema"
        await say(chat, pilot, "/schema off")
        await say(chat, pilot, "Hi")
        assert chat.program.model.requests[-1].response_format is None
        await say(chat, pilot, "/schema bad.json")
        assert "is not JSON" in notices(chat)[-1]


async def test_drop_leaves_the_oldest_out(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "One")
        await say(chat, pilot, "Two")
        await say(chat, pilot, "/drop 3")
        assert [view.stored.excluded for view in chat.transcript.views] == [True, True, True, False]


async def test_summarise_shows_the_summary(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "One")
        await say(chat, pilot, "/summarise 2")
        assert [(view.stored.kind, view.stored.excluded) for view in chat.transcript.views] == [
            ("message", True), ("message", True), ("summary", False),
        ]  # fmt: skip


async def test_continue_goes_on_in_place(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "One")
        said = chat.session.transcript()[1].content
        await say(chat, pilot, "/continue")
        assert [m.content for m in chat.session.transcript()] == ["One", said + said]
        assert chat.transcript.last_reply().copy_text == said + said


async def test_copy_regenerate_edit(chatting: Any, say: Any) -> None:
    async with chatting(["```\ncode\n```"]) as (chat, pilot):
        await say(chat, pilot, "One")
        await say(chat, pilot, "/copy 1")
        assert chat.app.clipboard == "code"
        await say(chat, pilot, "/copy")
        assert chat.app.clipboard == "```\ncode\n```"
        await say(chat, pilot, "/regenerate")
        assert chat.transcript.last_reply().stored.sibling_count == 2
        await say(chat, pilot, "/edit")
        assert chat.prompt.text == "One"


async def test_rename_delete_new(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "One")
        await say(chat, pilot, "/rename A better name")
        assert chat._title.content.plain == "A better name"
        await say(chat, pilot, "/delete")
        await pilot.press("y")
        await pilot.pause()
        assert chat.session.conversation is None
        assert not chat.program.history.conversations()


async def test_attach_checks_now_and_names_the_file(
    chatting: Any, say: Any, notices: Any, tmp_path: Path
) -> None:
    (tmp_path / "my notes.txt").write_text("x")
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "/attach my notes.txt")
        assert chat.prompt.text == '@"my notes.txt" '
        await say(chat, pilot, "/attach missing")
        assert "missing is not a file" in notices(chat)[-1]


async def test_themes(chatting: Any, say: Any, notices: Any) -> None:
    async with chatting() as (chat, pilot):
        for name in ("nord", "textual-ansi", "textual-light"):
            await say(chat, pilot, f"/theme {name}")
        assert chat.app.theme == "textual-light"
        await say(chat, pilot, "/theme nosuch")
        assert "There is no theme nosuch" in notices(chat)[-1]


async def test_every_command_is_in_the_palette(chatting: Any) -> None:
    async with chatting() as (chat, _):
        titles = [command.title.split()[0] for command in chat.app.get_system_commands(chat)]
        assert "/export" in titles
        assert "/quit" in titles


async def test_search_opens_the_panel_with_the_text(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "/search zebra")
        assert chat.app.screen._input.value == "zebra"
