"""What keys do to a message: copying, editing, branches, leaving out."""

from typing import Any


def contents(chat: Any) -> list[str]:
    return [message.content for message in chat.session.transcript()]


async def test_ctrl_up_selects_and_past_the_end_nothing_is(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        await pilot.press("ctrl+up")
        assert chat.transcript.selected is chat.transcript.views[1]
        assert chat.transcript.has_focus
        await pilot.press("ctrl+up", "ctrl+up")
        assert chat.transcript.selected is chat.transcript.views[0]
        await pilot.press("ctrl+down", "ctrl+down")
        assert chat.transcript.selected is None
        assert chat.prompt.has_focus


async def test_a_click_selects(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        await pilot.click(chat.transcript.views[0])
        assert chat.transcript.selected is chat.transcript.views[0]


async def test_esc_goes_back_to_the_prompt(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        await pilot.press("ctrl+up", "escape")
        assert chat.transcript.selected is None
        assert chat.prompt.has_focus


async def test_c_copies_the_message_as_written(chatting: Any, say: Any) -> None:
    async with chatting(["**bold** \x1b text"]) as (chat, pilot):
        await say(chat, pilot, "Hi")
        await pilot.press("ctrl+up", "c")
        assert chat.app.clipboard == "**bold** \x1b text"


async def test_b_copies_one_code_block_after_the_other(chatting: Any, say: Any, notices: Any) -> None:
    async with chatting(["```py\none\n```\n\ntext\n\n```\ntwo\n```\n"]) as (chat, pilot):
        await say(chat, pilot, "Hi")
        await pilot.press("ctrl+up")
        copied = []
        for key in ("b", "b", "b", "2"):
            await pilot.press(key)
            copied.append(chat.app.clipboard)
        assert copied == ["one", "two", "one", "two"]
        assert "code block 2 of 2" in notices(chat)[-1]
        await pilot.press("3")
        assert "2 code blocks" in notices(chat)[-1]


async def test_e_edits_as_a_branch_and_brackets_switch(chatting: Any, say: Any, until: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "First version")
        await say(chat, pilot, "Later")
        await pilot.press(*"draft", "ctrl+up", "ctrl+up", "ctrl+up", "ctrl+up", "e")
        assert chat.prompt.text == "First version"
        chat.prompt.put("Second version")
        await pilot.press("enter")
        await until(pilot, lambda: not chat.turns.running and len(chat.transcript.views) == 2)
        assert chat.prompt.text == "draft"
        assert contents(chat) == ["Second version", "Hello there."]
        label = chat.transcript.views[0].query_one(".message--label").content.plain
        assert "2/2" in label
        await pilot.press("ctrl+up", "ctrl+up", "left_square_bracket")
        await until(pilot, lambda: len(chat.transcript.views) == 4)
        assert contents(chat)[0] == "First version"
        assert chat.transcript.selected is chat.transcript.views[0]
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: len(chat.transcript.views) == 2)
        assert contents(chat)[0] == "Second version"


async def test_esc_leaves_an_edit_and_the_draft_comes_back(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        await pilot.press(*"draft", "ctrl+up", "ctrl+up", "e")
        assert chat.prompt.text == "Hi"
        await pilot.press("escape")
        assert chat.prompt.text == "draft"


async def test_r_answers_again_as_a_branch(chatting: Any, say: Any, until: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        chat.program.model.script = ["Another answer"]
        await pilot.press("ctrl+up", "r")
        await until(pilot, lambda: not chat.turns.running)
        assert contents(chat) == ["Hi", "Another answer"]
        assert chat.transcript.last_reply().stored.sibling_count == 2
        assert len(chat.transcript.views) == 2


async def test_x_leaves_out_and_takes_back_in(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Secret")
        await pilot.press("ctrl+up", "ctrl+up", "x")
        view = chat.transcript.views[0]
        assert view.has_class("-excluded")
        assert "left out" in view.query_one(".message--label").content.plain
        await say(chat, pilot, "Next")
        assert "Secret" not in [m.content for m in chat.program.model.requests[-1].messages]
        await pilot.press(*["ctrl+up"] * 4, "x")
        assert not chat.transcript.views[0].has_class("-excluded")


async def test_f_goes_on_from_here(chatting: Any, say: Any, until: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "One")
        await say(chat, pilot, "Two")
        await pilot.press(*["ctrl+up"] * 3, "f")
        await until(pilot, lambda: len(chat.transcript.views) == 2)
        await say(chat, pilot, "Instead")
        assert contents(chat) == ["One", "Hello there.", "Instead", "Hello there."]
        assert chat.transcript.views[2].stored.sibling_count == 2


async def test_space_unfolds_a_long_message(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "\n".join(f"line {n}" for n in range(100)))
        body = chat.transcript.views[0].query_one(".message--body")
        assert "76 more lines" in body.content.plain
        await pilot.press("ctrl+up", "ctrl+up", "space")
        assert "line 99" in body.content.plain
