"""Choosing and fetching models; the old one stays until the new one is there."""

from typing import Any

from localchat.tui.model_picker import download_text
from localchat.weights import Progress


async def test_f2_lists_the_catalog_and_choosing_loads(chatting: Any, say: Any, until: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("f2")
        await until(pilot, lambda: chat.app.screen._list.options)
        row = chat.app.screen._list.options[0].prompt.plain
        assert "smollm2-135m" in row
        assert "98.0 MB" in row
        assert "pulled" in row
        await pilot.press("down", "enter")
        await until(pilot, lambda: chat.status.status.model == "qwen2.5-0.5b")
        assert chat.program.model.loaded
        await say(chat, pilot, "Who?")
        assert chat.transcript.last_reply().stored.content == "I am qwen2.5-0.5b"


async def test_an_unknown_model_is_an_error_and_the_old_one_stays(
    chatting: Any, say: Any, notices: Any
) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "/model nosuch")
        assert "See: localchat weights list" in notices(chat)[-1]
        await say(chat, pilot, "Hi")
        assert chat.transcript.last_reply().stored.content == "Hello there."


async def test_pulling_shows_errors_and_then_the_new_model_answers(chatting: Any, until: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("f2")
        await until(pilot, lambda: chat.app.screen._list.options)
        await pilot.press("tab", *"hf:bad", "enter")
        picker = chat.app.screen
        await until(pilot, lambda: "Name it hf:owner" in picker._said.content.plain)
        picker._spec.value = "hf:good"
        await pilot.press("enter")
        await until(pilot, lambda: chat.status.status.model == "good")


async def test_switching_models_stops_a_running_reply(chatting: Any, gated: Any, until: Any) -> None:
    model = gated("Partial")
    async with chatting(model=model) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.query("OpenBlock"))
        await chat.panels.use_model("qwen2.5-0.5b")
        assert model.stopped == 1
        assert chat.session.transcript()[-1].state == "stopped"


def test_download_progress_says_how_much_how_fast_how_long() -> None:
    text = download_text(Progress("m.gguf", 41_000_000, 98_300_000, 12_100_000.0, 4.7))
    assert text == "m.gguf 41.0 MB of 98.3 MB · 12.1 MB/s · 5 s left"
    assert download_text(Progress("m.gguf", 0, None, 0.0, None)) == "m.gguf 0 B"
