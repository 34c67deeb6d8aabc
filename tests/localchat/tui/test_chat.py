"""A conversation as a person has it: sending, streaming, stopping, failing."""

import asyncio
from typing import Any

from textual.widgets import Markdown

from localchat.history import History
from localchat.tui.message import ReplyView, UserView
from localchat.tui.open_block import OpenBlock
from router.errors import BackendCrashed, ModelUnavailable
from router.request import (
    Delta,
    Finished,
    Notice,
    Progress,
    Timings,
    TokenScore,
    Usage,
)

SCORE = TokenScore(-0.1, 1.0, 0.5)


def roles(chat: Any) -> list[str]:
    return [view.stored.role for view in chat.transcript.views]


async def test_a_reply_is_shown_saved_and_rendered(chatting: Any, say: Any) -> None:
    async with chatting(["# Title\n\n", "Some **bold** text."]) as (chat, pilot):
        await say(chat, pilot, "Hi")
        assert roles(chat) == ["user", "assistant"]
        assert [m.content for m in chat.session.transcript()] == ["Hi", "# Title\n\nSome **bold** text."]
        reply = chat.transcript.last_reply()
        assert reply.query(Markdown).last().source == "# Title\n\nSome **bold** text."
        assert not reply.query(OpenBlock)
        assert chat.prompt.text == ""


async def test_text_arrives_while_it_streams(chatting: Any, gated: Any, until: Any) -> None:
    model = gated("First block.\n\n", "Second ", "block")
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query(OpenBlock) and chat.query_one(OpenBlock).text)
        reply = chat.transcript.last_reply()
        assert [block.source for block in reply.query(Markdown)] == ["First block.\n\n"]
        assert chat.query_one(OpenBlock).text == "Second block"
        model.gate.set()
        await until(pilot, lambda: not chat.turns.running)
        assert [block.source for block in reply.query(Markdown)] == ["First block.\n\nSecond block"]


async def test_live_speed_is_shown_mid_stream(chatting: Any, gated: Any, until: Any) -> None:
    model = gated(*[Delta("word ", scores=(SCORE,))] * 40)
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.status.status.tokens_per_s)
        assert "tokens/s" in chat.status.content.plain
        model.gate.set()
        await until(pilot, lambda: not chat.turns.running)
        assert chat.status.status.tokens_per_s is None


async def test_esc_stops_the_model_then_says_so(chatting: Any, gated: Any, until: Any) -> None:
    model = gated("Partial")
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query(OpenBlock))
        await pilot.press("escape")
        await until(pilot, lambda: not chat.turns.running)
        assert model.stopped == 1
        reply = chat.transcript.last_reply()
        assert (reply.stored.content, reply.stored.state) == ("Partial", "stopped")
        assert "stopped" in reply.query_one(".message--footer").content.plain
        assert chat.status.status.state == "ready"


async def test_the_next_message_works_after_a_stop(chatting: Any, gated: Any, until: Any, say: Any) -> None:
    model = gated("Partial")
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query(OpenBlock))
        await pilot.press("escape")
        model.gate.set()
        await say(chat, pilot, "Again")
        assert [m.state for m in chat.session.transcript()] == ["done", "stopped", "done", "done"]


async def test_sending_while_a_reply_streams_keeps_the_text(
    chatting: Any, gated: Any, until: Any, notices: Any
) -> None:
    model = gated("Partial")
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query(OpenBlock))
        chat.prompt.put("Too early")
        await pilot.press("enter")
        await pilot.pause()
        assert chat.prompt.text == "Too early"
        assert any("Esc stops it" in notice for notice in notices(chat))


async def test_a_message_sent_while_the_model_loads_waits(chatting: Any, gated: Any, until: Any) -> None:
    model = gated("Loaded", load_gate=asyncio.Event())
    model.gate.set()
    async with chatting(model=model) as (chat, pilot):
        assert chat.status.status.state == "loading the model 50 %"
        chat.prompt.put("Early")
        await pilot.press("enter")
        await until(pilot, lambda: len(chat.transcript.views) == 2)
        assert [m.content for m in chat.session.transcript()] == ["Early", ""]
        assert not model.requests
        model.load_gate.set()
        await until(pilot, lambda: not chat.turns.running)
        assert chat.transcript.last_reply().stored.content == "Loaded"


async def test_esc_while_the_model_loads_stops_the_turn_only(chatting: Any, gated: Any, until: Any) -> None:
    model = gated(load_gate=asyncio.Event())
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Early")
        await pilot.press("enter")
        await until(pilot, lambda: len(chat.transcript.views) == 2)
        await pilot.press("escape")
        await until(pilot, lambda: not chat.turns.running)
        assert chat.session.transcript()[-1].state == "stopped"
        model.load_gate.set()
        await until(pilot, lambda: chat.status.status.state == "ready")


async def test_a_crash_keeps_the_partial_reply_and_the_next_message_works(chatting: Any, say: Any) -> None:
    script = ["Half an ans", BackendCrashed("The engine died.", "Send again to restart it.")]
    async with chatting(script) as (chat, pilot):
        await say(chat, pilot, "Hi")
        reply = chat.transcript.last_reply()
        assert (reply.stored.content, reply.stored.state) == ("Half an ans", "failed")
        footer = reply.query_one(".message--footer").content.plain
        assert "failed: The engine died." in footer
        assert "/continue or /regenerate" in footer
        chat.program.model.script = ["Recovered"]
        await say(chat, pilot, "Again")
        assert chat.transcript.last_reply().stored.content == "Recovered"


async def test_a_model_that_cannot_load_leaves_the_chat_usable(
    chatting: Any, make_program: Any, notices: Any, until: Any, monkeypatch: Any
) -> None:
    program = make_program()

    async def broken() -> Any:
        raise ModelUnavailable("The file is damaged.", "Fetch it again.")
        yield

    monkeypatch.setattr(type(program.model), "load", lambda self: broken())
    async with chatting(program=program) as (chat, pilot):
        await until(pilot, lambda: chat.status.status.state == "no model")
        assert "The file is damaged. Fetch it again." in notices(chat)
        await pilot.press(*"still")
        assert chat.prompt.text == "still"


async def test_the_footer_tells_model_tokens_speed_and_first_token(chatting: Any, say: Any) -> None:
    done = Finished("stop", Usage(200, 0, 1_018), Timings(0.0, 0.42, 118.0, 38.24), "smollm2-135m")
    async with chatting(["Text", done]) as (chat, pilot):
        await say(chat, pilot, "Hi")
        footer = chat.transcript.last_reply().query_one(".message--footer").content.plain
        assert footer == "smollm2-135m · 1,018 tokens · 38.2 tokens/s · first token 0.42 s"
        assert "1,218 / 8,192" in chat.status.content.plain


async def test_prefill_progress_updates_in_place(chatting: Any, gated: Any, until: Any) -> None:
    model = gated(Progress("prefill", 43, 100, "tokens", 118.0, 4.0))
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: "43 %" in chat.status.status.state)
        footer = chat.transcript.last_reply().query_one(".message--footer").content.plain
        assert footer == "reading the prompt 43 % · 118 tokens/s · 4 s left"


async def test_notices_and_model_text_are_never_markup(chatting: Any, say: Any, notices: Any) -> None:
    text = "[bold]x[/bold] [/] [@click=app.quit]y[/] \x1b[31mred"
    async with chatting([Notice(text), text]) as (chat, pilot):
        await say(chat, pilot, text)
        shown = text.replace("\x1b", "␛")
        assert shown in notices(chat)
        assert chat.transcript.views[0].query_one(".message--body").content.plain == shown
        assert chat.transcript.last_reply().query_one("MarkdownParagraph").content.plain == shown
        assert chat.session.transcript()[1].content == text


async def test_reasoning_is_folded_live_and_not_copied(chatting: Any, gated: Any, until: Any) -> None:
    model = gated("<think>One two", " three</think>", "Answer")
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query("Reasoning"))
        reasoning = chat.query_one("Reasoning")
        assert "3 words" in chat.query_one(".reasoning--heading").content.plain
        assert not reasoning.expanded
        await pilot.press("ctrl+t")
        assert reasoning.expanded
        model.gate.set()
        await until(pilot, lambda: not chat.turns.running)
        assert chat.transcript.last_reply().copy_text == "Answer"
        assert chat.query_one("Reasoning").text == "One two three"


async def test_reclassified_text_moves_to_the_reasoning(chatting: Any, gated: Any, until: Any) -> None:
    model = gated("All of this was thought.\n\n", "And this.</think>Answer")
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query(OpenBlock) and chat.query("Reasoning"))
        model.gate.set()
        await until(pilot, lambda: not chat.turns.running)
        stored = chat.transcript.last_reply().stored
        assert (stored.content, stored.reasoning) == ("Answer", "All of this was thought.\n\nAnd this.")
        assert chat.query_one("Reasoning").text == stored.reasoning


async def test_reference_links_and_fences_in_lists_end_up_right(chatting: Any, say: Any) -> None:
    text = "See [the docs][1].\n\n1. Run\n\n   ```sh\n   ls\n   ```\n\n[1]: https://example.org\n"
    async with chatting([text[i : i + 3] for i in range(0, len(text), 3)]) as (chat, pilot):
        await say(chat, pilot, "Hi")
        reply = chat.transcript.last_reply()
        assert reply.query("MarkdownParagraph").first().content.plain == "See the docs."
        assert [fence.code for fence in reply.query("MarkdownOrderedList Fence")] == ["ls"]


async def test_raw_html_and_images_stay_visible(chatting: Any, say: Any) -> None:
    async with chatting(["<div>kept</div>\n\n![alt](http://x/y.png)"]) as (chat, pilot):
        await say(chat, pilot, "Hi")
        paragraphs = [p.content.plain for p in chat.query("MarkdownParagraph")]
        assert paragraphs == ["<div>kept</div>", "!alt"]


async def test_a_failing_store_is_a_message_not_a_crash(
    chatting: Any, say: Any, notices: Any, monkeypatch: Any
) -> None:
    from localchat.errors import HistoryError

    async with chatting() as (chat, pilot):

        def full(*_: Any, **__: Any) -> None:
            raise HistoryError("The disk is full.", "Free some space.")

        monkeypatch.setattr(History, "new_conversation", full)
        await say(chat, pilot, "Hi")
        assert "The disk is full. Free some space." in notices(chat)
        assert chat.prompt.text == "Hi"


async def test_views_know_their_kind(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        assert [type(view) for view in chat.transcript.views] == [UserView, ReplyView]
