"""Who answers: the switch, what it says, the other side, and what is asked before anything leaves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest

from localchat.compose import Remote
from localchat.tui.route_panels import ConsentPanel, PreviewPanel, StoryPanel
from router.consent import Departure
from router.decision import CacheLabel, Decision, Estimate
from router.dispatch import Dispatch, Elsewhere
from router.errors import CloudCutOff
from router.request import CacheHit, Finished, Simulated, Usage
from router.scripted import ScriptedBackend
from tests.router.elsewhere import Choosing, Out, Written

DEPARTURE = Departure("simulated: llama", "1 card number", '{"card": "4111"}', '{"card": "<CARD_1>"}')
SIMULATED = Simulated("h100", 3, 12, 0.2, "smollm2-135m")
FAR = Finished("stop", Usage(9, 0, 2), model="llama", cost_usd=0.0012, simulated=SIMULATED)


class Pricing(Choosing):
    async def choose(self, request: Any, turn: Any) -> Decision:
        expected = Estimate("cloud", "llama", 0.2, 1.5, 0.0012)
        return Decision("cloud", "llama", ("It is a hard question.",), difficulty=0.8, expected=expected)


@dataclass
class FakeRouting:
    """What the screen needs of a Routing."""

    labels: list[tuple[str, str]] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)
    ask_person: Any = None
    remote: Remote = field(
        default_factory=lambda: Remote(
            "simulated: llama", True, lambda request: DEPARTURE, lambda: "$0.01 of $1.00"
        )
    )

    def story(self, entry: str) -> list[str]:
        return [f"The story of {entry}."]

    def label(self, entry: str, label: str) -> None:
        self.labels.append((entry, label))

    async def reject(self, entry: int) -> str:
        self.rejected.append(entry)
        return ""

    async def close(self) -> None:
        pass


@pytest.fixture
def two_sided(make_program: Any) -> Any:
    def make(*far: Any, **changes: Any) -> Any:
        program = make_program()
        elsewhere = Elsewhere(Pricing("cloud"), Out(*(far or ("Far away.", FAR))))
        program.session.dispatch = Dispatch(
            ScriptedBackend(("Near.",)), None, lambda: elsewhere, book=Written()
        )
        program.routing = FakeRouting()
        return program

    return make


def footer(view: Any) -> str:
    return str(view._footer.content)


def story(view: Any) -> str:
    return str(view._story.content) if view._story.display else ""


async def test_f5_goes_round_and_the_status_line_says_who_answers(
    chatting: Any, two_sided: Any, notices: Any
) -> None:
    async with chatting(program=two_sided()) as (chat, pilot):
        seen = [chat.status.status.mode]
        for _ in range(3):
            await pilot.press("f5")
            seen.append(chat.status.status.mode)
        assert seen == ["local", "auto, SIMULATED", "cloud, SIMULATED", "local"]
        assert "simulated: llama" in notices(chat)[-2]


async def test_without_another_side_everything_stays_and_is_said_to(chatting: Any, notices: Any) -> None:
    async with chatting() as (chat, pilot):
        assert chat.status.status.mode == "offline"
        await pilot.press("f5")
        assert chat.session.mode == "local"
        assert "Offline" in notices(chat)[-1]


async def test_an_answer_from_elsewhere_carries_its_marks_and_its_reason(
    chatting: Any, two_sided: Any, say: Any
) -> None:
    async with chatting(program=two_sided(), size=(120, 40)) as (chat, pilot):
        await pilot.press("f5")
        await say(chat, pilot, "Why is the sky blue?")
        view = chat.transcript.last_reply()
        assert view.stored.content == "Far away."
        for mark in ("cloud", "SIMULATED h100", "batch 12", "$0.0012"):
            assert mark in footer(view)
        assert "It is a hard question." in story(view)
        assert chat.status.status.spent == "$0.01 of $1.00"


async def test_cloud_and_local_override_one_message(chatting: Any, two_sided: Any, say: Any) -> None:
    async with chatting(program=two_sided()) as (chat, pilot):
        await say(chat, pilot, "Hi")
        await say(chat, pilot, "/cloud And there?")
        assert [m.content for m in chat.session.transcript()] == ["Hi", "Near.", "And there?", "Far away."]
        assert chat.session.mode == "local"
        await say(chat, pilot, "/cloud")
        assert chat.session.mode == "cloud"
        await say(chat, pilot, "/local And here?")
        assert chat.session.transcript()[-1].content == "Near."


async def test_an_answer_can_be_asked_for_on_the_other_side_and_both_stay(
    chatting: Any, two_sided: Any, say: Any, until: Any
) -> None:
    async with chatting(program=two_sided()) as (chat, pilot):
        await say(chat, pilot, "Hi")
        await pilot.press("ctrl+up", "o")
        await until(pilot, lambda: not chat.turns.running)
        view = chat.transcript.last_reply()
        assert (view.stored.content, view.stored.sibling_count) == ("Far away.", 2)
        await say(chat, pilot, "/redo")
        view = chat.transcript.last_reply()
        assert (view.stored.content, view.stored.sibling_count) == ("Near.", 3)


async def test_a_pinned_conversation_stays_whatever_the_mode(
    chatting: Any, two_sided: Any, say: Any, notices: Any
) -> None:
    async with chatting(program=two_sided()) as (chat, pilot):
        await say(chat, pilot, "/auto")
        await say(chat, pilot, "/pin")
        await say(chat, pilot, "Hi")
        assert (chat.session.transcript()[-1].content, chat.status.status.mode) == ("Near.", "pinned here")
        await say(chat, pilot, "/cloud Hi")
        assert "pinned" in notices(chat)[-1]
        await pilot.press("ctrl+n")
        assert chat.status.status.mode == "auto, SIMULATED"


async def test_when_the_cloud_breaks_off_the_words_stay_and_that_is_said(
    chatting: Any, two_sided: Any, say: Any, notices: Any
) -> None:
    async with chatting(program=two_sided("Almost ", CloudCutOff("It broke off."))) as (chat, pilot):
        await say(chat, pilot, "/cloud Hi")
        view = chat.transcript.last_reply()
        assert view.stored.content == "Almost Near."
        assert "from cloud to local after 7 characters, which stay: It broke off." in story(view)
        assert any("It broke off." in notice for notice in notices(chat))


async def test_w_tells_the_story(chatting: Any, two_sided: Any, say: Any) -> None:
    async with chatting(program=two_sided()) as (chat, pilot):
        await say(chat, pilot, "/cloud Hi")
        await pilot.press("ctrl+up", "w")
        await pilot.pause()
        assert isinstance(chat.app.screen, StoryPanel)
        assert chat.app.screen._lines == ["The story of 7f3."]
        await pilot.press("w")
        assert chat.app.screen is chat


async def test_while_typing_it_says_where_it_would_go(chatting: Any, two_sided: Any, until: Any) -> None:
    async with chatting(program=two_sided(), size=(120, 30)) as (chat, pilot):
        await pilot.press("f5")
        chat.prompt.put("Why is the sky blue?")
        await until(pilot, lambda: chat.status.status.estimate)
        assert chat.status.status.estimate == (
            "→ cloud",
            "≈ 1.5 s, $0.0012",
            "difficulty 80%",
            "It is a hard question.",
        )


@pytest.mark.parametrize(
    ("key", "consent"), [("r", "redact"), ("s", "send"), ("k", "keep"), ("escape", "keep")]
)
async def test_a_person_is_asked_before_something_leaves(
    chatting: Any, two_sided: Any, key: str, consent: str
) -> None:
    async with chatting(program=two_sided()) as (chat, pilot):
        asking = asyncio.create_task(chat.routes.ask_before_leaving(DEPARTURE))
        await pilot.pause()
        panel = chat.app.screen
        assert isinstance(panel, ConsentPanel)
        assert "<CARD_1>" in str(panel._body.content)
        await pilot.press("tab")
        assert "4111" in str(panel._body.content)
        await pilot.press(key)
        assert await asking == consent


async def test_preview_shows_what_would_leave_and_sends_nothing(
    chatting: Any, two_sided: Any, say: Any
) -> None:
    async with chatting(program=two_sided()) as (chat, pilot):
        await say(chat, pilot, "/preview My card is 4111")
        assert isinstance(chat.app.screen, PreviewPanel)
        assert chat.session.transcript() == []


def test_the_screen_of_an_answer_from_elsewhere(two_sided: Any, snap_compare: Any) -> None:
    from localchat.tui.app import ChatApp

    async def ask(pilot: Any) -> None:
        chat = pilot.app.chat
        await pilot.press("f5")
        chat.prompt.put("Why is the sky blue?")
        await pilot.press("enter")
        while chat.turns.running or not chat.session.transcript():
            await pilot.pause(0.01)
        pilot.app.clear_notifications()
        await pilot.pause()

    assert snap_compare(ChatApp(two_sided()), terminal_size=(100, 24), run_before=ask)


def test_the_screen_of_what_would_leave(two_sided: Any, snap_compare: Any) -> None:
    from localchat.tui.app import ChatApp

    async def ask(pilot: Any) -> None:
        pilot.app.push_screen(ConsentPanel(DEPARTURE))
        await pilot.pause()

    assert snap_compare(ChatApp(two_sided()), terminal_size=(80, 24), run_before=ask)


async def test_what_a_person_says_of_an_answer_is_kept(chatting: Any, two_sided: Any, say: Any) -> None:
    program = two_sided()
    async with chatting(program=program) as (chat, pilot):
        await say(chat, pilot, "Hi")
        await pilot.press("ctrl+up", "plus", "minus", "o")
        assert program.routing.labels == [("7f3", "good"), ("7f3", "bad"), ("7f3", "redone in the cloud")]


async def test_a_stored_answer_that_is_wrong_goes_and_the_question_is_asked_anew(
    chatting: Any, two_sided: Any, say: Any, until: Any, notices: Any
) -> None:
    label = CacheLabel("semantic", 3, "Why is the sky so blue?", 0.97, 0.93, 60.0)
    program = two_sided(CacheHit(label), "An old answer.")
    async with chatting(program=program, size=(120, 30)) as (chat, pilot):
        await say(chat, pilot, "/cloud Why is the sky blue?")
        assert "cached 1 min ago for “Why is the sky so blue?”" in story(chat.transcript.last_reply())
        await pilot.press("ctrl+up", "n")
        await until(pilot, lambda: not chat.turns.running)
        assert program.routing.rejected == [3]
        assert program.routing.labels == [("7f3", "rejected")]
        assert chat.transcript.last_reply().stored.sibling_count == 2
        await say(chat, pilot, "/local Hi")
        await say(chat, pilot, "/reject")
        assert "does not come from the cache" in notices(chat)[-1]
