"""Writing: newline keys, pasting, earlier prompts, drafts, attachments, completion."""

from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual._xterm_parser import XTermParser

from localchat.history import History


async def test_enter_sends_and_the_newline_keys_do_not(chatting: Any, until: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("a", "shift+enter", "b", "alt+enter", "c", "ctrl+j", "d")
        assert chat.prompt.text == "a\nb\nc\nd"
        await pilot.press("enter")
        await until(pilot, lambda: not chat.turns.running and chat.transcript.views)
        assert chat.session.transcript()[0].content == "a\nb\nc\nd"


async def test_terminals_without_the_kitty_protocol_have_alt_enter(chatting: Any) -> None:
    async with chatting():
        keys = [event.key for event in XTermParser().feed("\x1b\r") if isinstance(event, events.Key)]
        assert keys == ["alt+enter"]


async def test_enter_on_nothing_sends_nothing(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("space", "enter")
        assert chat.session.conversation is None


async def test_a_paste_never_submits(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        chat.prompt.post_message(events.Paste("one\r\ntwo\n"))
        await pilot.pause()
        assert chat.prompt.text == "one\ntwo\n"
        assert chat.session.conversation is None


async def test_a_large_paste_is_a_token_until_it_is_sent(chatting: Any, until: Any) -> None:
    pasted = "line of a log\n" * 120
    async with chatting() as (chat, pilot):
        chat.prompt.insert("See ")
        chat.prompt.post_message(events.Paste(pasted))
        await pilot.pause()
        assert chat.prompt.text == "See [pasted 121 lines, 1.7 kB]"
        await pilot.press("enter")
        await until(pilot, lambda: not chat.turns.running and chat.transcript.views)
        assert chat.session.transcript()[0].content == f"See {pasted}"


async def test_backspace_deletes_a_token_as_one(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        chat.prompt.insert("See ")
        chat.prompt.post_message(events.Paste("x\n" * 50))
        await pilot.pause()
        await pilot.press("backspace")
        assert chat.prompt.text == "See "


async def test_up_and_down_walk_earlier_prompts(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "first")
        await say(chat, pilot, "second\nline")
        await pilot.press(*"new", "up")
        assert chat.prompt.text == "second\nline"
        await pilot.press("up")
        assert chat.prompt.cursor_location[0] == 0
        assert chat.prompt.text == "second\nline"
        await pilot.press("up")
        assert chat.prompt.text == "first"
        await pilot.press("up", "down", "down")
        assert chat.prompt.text == "new"


async def test_the_prompt_grows_to_a_third_of_the_screen(chatting: Any) -> None:
    async with chatting(size=(80, 30)) as (chat, pilot):
        assert chat.prompt.size.height == 1
        chat.prompt.insert("\n" * 4)
        await pilot.pause()
        assert chat.prompt.size.height == 5
        chat.prompt.insert("\n" * 20)
        await pilot.pause()
        assert chat.prompt.size.height <= 10


async def test_drafts_belong_to_their_conversation(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        first = chat.session.conversation.id
        await pilot.press(*"half")
        await pilot.press("ctrl+n")
        assert chat.prompt.text == ""
        await pilot.press(*"other")
        assert chat.program.history.draft(first) == "half"
        await pilot.press("ctrl+o", "enter")
        await pilot.pause()
        assert chat.prompt.text == "half"
        await pilot.press("ctrl+n")
        assert chat.prompt.text == "other"


async def test_a_draft_survives_the_program(chatting: Any, make_program: Any, tmp_path: Path) -> None:
    async with chatting(program=make_program(history=History(tmp_path / "h.db"))) as (chat, pilot):
        await pilot.press(*"un sent")
        chat.prompt.post_message(events.Paste("x\n" * 50))
        await pilot.pause()
        await chat.app.action_quit()
    async with chatting(program=make_program(history=History(tmp_path / "h.db"))) as (chat, _):
        assert chat.prompt.text == "un sent[pasted 51 lines, 100 B]"
        assert chat.prompt.full_text == "un sent" + "x\n" * 50


async def test_a_draft_is_saved_without_quitting(chatting: Any, until: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press(*"unsent")
        await until(pilot, lambda: chat.program.history.draft(None) == "unsent")


async def test_a_mentioned_file_is_a_chip_and_goes_along(chatting: Any, until: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember\n")
    async with chatting() as (chat, pilot):
        chat.prompt.put("See @notes.txt please")
        await pilot.pause()
        assert chat._chips.display
        assert "notes.txt (9 B)" in chat._chips.content.plain
        await pilot.press("enter")
        await until(pilot, lambda: not chat.turns.running and chat.transcript.views)
        sent = chat.session.transcript()[0].content
        assert sent == "See @notes.txt please\n\nnotes.txt\n```\nremember\n```"
        assert not chat._chips.display


@pytest.mark.parametrize("data", [b"\0\1\2", b"x" * 1_000_001])
async def test_what_cannot_go_along_is_refused_and_nothing_is_lost(
    chatting: Any, notices: Any, tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "blob.bin").write_bytes(data)
    async with chatting() as (chat, pilot):
        chat.prompt.put("See @blob.bin and more")
        await pilot.press("enter")
        await pilot.pause()
        assert chat.prompt.text == "See @blob.bin and more"
        assert "blob.bin" in notices(chat)[-1]
        assert chat.session.conversation is None


async def test_completion_of_a_command(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("/")
        assert chat.completions.display
        await pilot.press("down", "up", *"exp", "tab")
        assert chat.prompt.text == "/export "
        assert not chat.completions.display


async def test_esc_closes_the_completion_and_keeps_the_text(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("/", "e", "escape")
        assert not chat.completions.display
        assert chat.prompt.text == "/e"
        assert chat.prompt.has_focus


async def test_completion_of_a_file(chatting: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    async with chatting() as (chat, pilot):
        await pilot.press(*"see @no", "enter")
        assert chat.prompt.text == "see @notes.txt "
        assert chat.session.conversation is None


async def test_typing_an_argument_needs_no_completion(chatting: Any, until: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("/", *"help", "enter")
        await pilot.pause()
        assert type(chat.app.screen).__name__ == "HelpPanel"


async def test_switching_branches_keeps_what_is_being_written(chatting: Any, say: Any, until: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        await say(chat, pilot, "/regenerate")
        await pilot.press(*"half", "ctrl+up", "left_square_bracket")
        await until(pilot, lambda: chat.transcript.last_reply().stored.sibling_index == 0)
        assert chat.prompt.text == "half"


async def test_enter_never_takes_a_candidate_of_an_earlier_text(chatting: Any) -> None:
    """Keys that come faster than changes are told."""
    async with chatting() as (chat, pilot):
        await pilot.press("/", "n", "e")
        assert chat.completions.is_open
        chat.prompt.text = "What is a semaphore?"  # told in a moment; the list is still of "/ne"
        chat.prompt.move_cursor((0, len(chat.prompt.text)))
        chat.prompt._enter()
        await pilot.pause()
        assert not chat.completions.is_open
        assert chat.session.transcript()[0].content == "What is a semaphore?"


async def test_a_list_that_was_declined_stays_closed_when_the_text_is_sent(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press(*"/pin", "escape", "enter")
        await pilot.pause()
        assert chat.session.pinned
        assert chat.prompt.text == ""
