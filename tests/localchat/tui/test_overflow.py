"""Too long for the window: nothing is lost, and what goes is shown and chosen."""

from dataclasses import dataclass
from typing import Any

import pytest

from localchat.room import OldTurn
from localchat.tui.overflow import SizedTurn, turns_to_drop
from router.errors import ContextOverflow
from router.request import ChatRequest
from router.scripted import ScriptedBackend


@dataclass(slots=True)
class SmallWindow(ScriptedBackend):
    """Counts words as tokens and refuses what is over its window."""

    async def stream(self, request: ChatRequest) -> Any:
        used = await self.count_tokens(request.messages)
        if used > self.window_tokens:
            self.requests.append(request)
            raise ContextOverflow(used, self.window_tokens)
        async for event in ScriptedBackend.stream(self, request):
            yield event


@pytest.fixture
def crowded(chatting: Any, say: Any) -> Any:
    """A conversation of two turns in a window of 20 words, and the panel that the third one opens."""

    async def fill(chat: Any, pilot: Any) -> None:
        await say(chat, pilot, "one two three four five six")
        await say(chat, pilot, "seven eight nine ten")
        await say(chat, pilot, "and eight more words than do fit now")
        await pilot.pause()

    return lambda: chatting(model=SmallWindow(("Hello", " there."), window_tokens=16)), fill


def seen(chat: Any) -> list[str]:
    return [message.content for message in chat.program.model.requests[-1].messages]


async def test_the_panel_names_what_would_go(crowded: Any) -> None:
    chat_of, fill = crowded
    async with chat_of() as (chat, pilot):
        await fill(chat, pilot)
        text = chat.app.screen.query_one("#old-turns").content.plain
        assert [line.split()[:2] for line in text.splitlines()[:2]] == [["leave", "out"], ["keep", "6"]]
        assert "one two three four five six" in text
        assert "Frees 8 tokens: enough." in text


async def test_leaving_out_answers_the_same_message(crowded: Any, until: Any) -> None:
    chat_of, fill = crowded
    async with chat_of() as (chat, pilot):
        await fill(chat, pilot)
        await pilot.press("d")
        await until(pilot, lambda: chat.session.transcript()[-1].content == "Hello there.")
        assert seen(chat) == ["seven eight nine ten", "Hello there.", "and eight more words than do fit now"]
        assert [view.stored.excluded for view in chat.transcript.views] == [
            True,
            True,
            False,
            False,
            False,
            False,
        ]
        assert len(chat.session.transcript()) == 6


async def test_more_can_be_left_out(crowded: Any, until: Any) -> None:
    chat_of, fill = crowded
    async with chat_of() as (chat, pilot):
        await fill(chat, pilot)
        await pilot.press("right", "enter")
        await until(pilot, lambda: chat.session.transcript()[-1].content == "Hello there.")
        assert seen(chat) == ["and eight more words than do fit now"]


async def test_summarising_keeps_the_sense_and_asks_again(crowded: Any, until: Any) -> None:
    chat_of, fill = crowded
    async with chat_of() as (chat, pilot):
        await fill(chat, pilot)
        chat.program.model.window_tokens = 60
        await pilot.press("s")
        await until(
            pilot, lambda: chat.session.transcript()[-1].role == "assistant" and not chat.turns.running
        )
        path = chat.session.transcript()
        assert [m.kind for m in path].count("summary") == 1
        assert path[-2].content == "and eight more words than do fit now"
        assert "Earlier in this conversation: Hello there." in seen(chat)[0]
        assert "one two three four five six" not in " ".join(seen(chat))


async def test_editing_puts_the_message_back(crowded: Any) -> None:
    chat_of, fill = crowded
    async with chat_of() as (chat, pilot):
        await fill(chat, pilot)
        await pilot.press("e")
        await pilot.pause()
        assert chat.prompt.text == "and eight more words than do fit now"


async def test_deciding_later_loses_nothing(crowded: Any) -> None:
    chat_of, fill = crowded
    async with chat_of() as (chat, pilot):
        await fill(chat, pilot)
        await pilot.press("escape")
        path = chat.session.transcript()
        assert path[-2].content == "and eight more words than do fit now"
        assert path[-1].state == "failed"
        assert not any(m.excluded for m in path)


def test_the_oldest_go_first_and_no_more_than_needed() -> None:
    turns = [SizedTurn(OldTurn((n,), ""), 10) for n in range(5)]
    assert [turns_to_drop(turns, excess) for excess in (1, 10, 11, 50, 99)] == [1, 1, 2, 5, 5]
    assert turns_to_drop([], 5) == 0
