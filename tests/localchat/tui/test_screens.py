"""How the main screens look. Nothing in them depends on time, machine or speed."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from localchat.history import History
from localchat.room import OldTurn
from localchat.tui.app import ChatApp
from localchat.tui.overflow import OverflowPanel, SizedTurn
from router.errors import ContextOverflow
from router.request import Timings, Usage

NOW = 1_700_000_000.0
REPLY = """\
Use the **slice** `xs[::-1]`, or [`reversed`](https://docs.python.org/3/):

```python
def reverse(xs: list[int]) -> list[int]:
    return list(reversed(xs))
```

1. `reversed` gives an *iterator*
2. a slice copies

| way | cost |
|-----|------|
| slice | O(n) |
"""

Steps = Callable[[Pilot[None]], Awaitable[None]]


@pytest.fixture
def app(make_program: Any, tmp_path: Any, monkeypatch: Any) -> Callable[[], ChatApp]:
    """A conversation with one reply, among two others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("localchat.tui.conversations.day", lambda unix_s: "14 Nov 2023")
    ticks = iter(range(1_000))
    history = History(None, now=lambda: NOW + next(ticks))
    for title in ("Letter to the landlord", "Sourdough for a weekend"):
        history.add(history.new_conversation().id, None, "user", title)
    info = history.new_conversation()
    question = history.add(info.id, None, "user", "How do I reverse a list in Python?")
    history.add(info.id, None, "user", "How do I reverse a tuple?")
    reply = history.add(info.id, question.id, "assistant", REPLY)
    history.update(
        reply.id,
        content=REPLY,
        reasoning="They want a list turned round.",
        state="done",
        model="smollm2-135m",
        usage=Usage(812, 0, 392),
        timings=Timings(0.0, 0.42, 118.0, 38.2),
    )
    return lambda: ChatApp(make_program(history=history), info.id)


def pressing(*keys: str) -> Steps:
    async def press(pilot: Pilot[None]) -> None:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()

    return press


def test_conversation(app: Any, snap_compare: Any) -> None:
    assert snap_compare(app(), terminal_size=(80, 24), run_before=pressing())


def test_conversation_wide(app: Any, snap_compare: Any) -> None:
    assert snap_compare(app(), terminal_size=(120, 40), run_before=pressing("ctrl+t"))


def test_new_conversation_with_commands(app: Any, snap_compare: Any) -> None:
    assert snap_compare(app(), terminal_size=(80, 24), run_before=pressing("ctrl+n", "/", "e"))


def test_conversations(app: Any, snap_compare: Any) -> None:
    assert snap_compare(app(), terminal_size=(80, 24), run_before=pressing("ctrl+o"))


def test_parameters(app: Any, snap_compare: Any) -> None:
    assert snap_compare(app(), terminal_size=(80, 24), run_before=pressing("f3"))


def test_help(app: Any, snap_compare: Any) -> None:
    assert snap_compare(app(), terminal_size=(80, 24), run_before=pressing("f1"))


def test_overflow(app: Any, snap_compare: Any) -> None:
    turns = [
        SizedTurn(OldTurn((1,), "How do I reverse a list in Python?"), 812),
        SizedTurn(OldTurn((2,), "And a tuple?"), 96),
        SizedTurn(OldTurn((3,), "Now explain generators"), 301),
    ]

    async def show(pilot: Pilot[None]) -> None:
        pilot.app.push_screen(OverflowPanel(ContextOverflow(8_700, 8_192, 256), turns))
        await pilot.pause()

    assert snap_compare(app(), terminal_size=(80, 24), run_before=show)


def test_selected_and_left_out_without_colour(app: Any, snap_compare: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    keys = pressing("ctrl+up", "ctrl+up", "x")
    assert snap_compare(app(), terminal_size=(80, 24), run_before=keys)


def test_the_terminals_own_colours(app: Any, snap_compare: Any) -> None:
    chat = app()
    chat.theme = "ansi-dark"
    assert snap_compare(chat, terminal_size=(80, 24), run_before=pressing())


def test_little_room(app: Any, snap_compare: Any) -> None:
    assert snap_compare(app(), terminal_size=(40, 10), run_before=pressing())
