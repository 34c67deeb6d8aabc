"""The window of history: mounting, scrolling, following, holding the view in place."""

from typing import Any

from localchat.tui.transcript import MOST_MOUNTED, WINDOW


def ids(chat: Any) -> list[int]:
    return [view.stored.id for view in chat.transcript.views]


def top_of(view: Any) -> int:
    return int(view.region.y)


async def test_a_long_conversation_opens_at_its_end_with_a_window_mounted(
    chatting: Any, make_program: Any, long_conversation: Any
) -> None:
    history, conversation, path = long_conversation(1_000)
    async with chatting(program=make_program(history=history), conversation=conversation) as (chat, pilot):
        await pilot.pause()
        assert ids(chat) == [m.id for m in path[-WINDOW:]]
        assert chat.transcript.following
        assert chat.transcript.scroll_y == chat.transcript.max_scroll_y


async def test_scrolling_up_mounts_more_and_the_view_does_not_jump(
    chatting: Any, make_program: Any, long_conversation: Any, until: Any
) -> None:
    history, conversation, path = long_conversation(200)
    async with chatting(program=make_program(history=history), conversation=conversation) as (chat, pilot):
        await pilot.pause()
        first = chat.transcript.views[0]
        chat.transcript.scroll_to(y=3, animate=False, immediate=True)
        await pilot.pause(0)
        before = top_of(first)
        await until(pilot, lambda: len(chat.transcript.views) > WINDOW)
        await pilot.pause()
        assert top_of(first) == before
        assert ids(chat) == [m.id for m in path[-len(ids(chat)) :]]


async def test_all_of_it_can_be_reached(
    chatting: Any, make_program: Any, long_conversation: Any, until: Any
) -> None:
    history, conversation, path = long_conversation(70)
    async with chatting(program=make_program(history=history), conversation=conversation) as (chat, pilot):
        for _ in range(12):
            chat.transcript.scroll_home(animate=False, immediate=True)
            await pilot.pause()
        await until(pilot, lambda: ids(chat) == [m.id for m in path])


async def test_new_text_is_followed_only_at_the_end(
    chatting: Any, make_program: Any, long_conversation: Any, gated: Any, until: Any
) -> None:
    history, conversation, _ = long_conversation(20)
    model = gated(*["A line of text that goes on.\n\n"] * 30)
    program = make_program(history=history, model=model)
    async with chatting(program=program, conversation=conversation) as (chat, pilot):
        chat.prompt.put("Go")
        await pilot.press("enter")
        await until(pilot, lambda: len(chat.query("Prose")) > 10 and chat.turns.running)
        assert chat.transcript.scroll_y == chat.transcript.max_scroll_y
        chat.transcript.scroll_to(y=4, animate=False, immediate=True)
        await pilot.pause()
        view = chat.transcript.views[1]
        before = top_of(view)
        model.gate.set()
        await until(pilot, lambda: not chat.turns.running)
        await pilot.pause()
        assert top_of(view) == before
        assert not chat.transcript.following
        await pilot.press("ctrl+end")
        await pilot.pause()
        assert chat.transcript.scroll_y == chat.transcript.max_scroll_y
        assert chat.transcript.following


async def test_what_is_rendered_anew_above_does_not_move_the_view(
    chatting: Any, make_program: Any, long_conversation: Any
) -> None:
    history, conversation, _ = long_conversation(30)
    async with chatting(program=make_program(history=history), conversation=conversation) as (chat, pilot):
        await pilot.pause()
        chat.transcript.scroll_to(y=60, animate=False, immediate=True)
        await pilot.pause()
        held = next(
            view for view in chat.transcript.views if view.region.bottom > chat.transcript.region.y + 1
        )
        before = top_of(held)
        await chat.transcript.views[0].remove()
        chat.transcript.views[1].query_one(".message--body").update("one\ntwo\nthree\nfour")
        await pilot.pause()
        assert top_of(held) == before


async def test_the_oldest_are_let_go_while_the_reader_is_at_the_end(
    chatting: Any, make_program: Any, long_conversation: Any, say: Any, until: Any
) -> None:
    history, conversation, _ = long_conversation(200)
    async with chatting(program=make_program(history=history), conversation=conversation) as (chat, pilot):
        while await chat.transcript.load_older():
            if len(ids(chat)) > MOST_MOUNTED:
                break
        chat.transcript.jump_to_end()
        await pilot.pause()
        await say(chat, pilot, "More")
        assert len(ids(chat)) <= WINDOW + 2


async def test_vim_keys_scroll(chatting: Any, make_program: Any, long_conversation: Any) -> None:
    from localchat.settings import Settings, UiSettings

    history, conversation, _ = long_conversation(30)
    program = make_program(history=history, settings=Settings(system="", ui=UiSettings(vim=True)))
    async with chatting(program=program, conversation=conversation) as (chat, pilot):
        await pilot.pause()
        chat.transcript.focus()
        await pilot.press("g")
        assert chat.transcript.scroll_y == 0
        await pilot.press("G")
        assert chat.transcript.scroll_y == chat.transcript.max_scroll_y
        await pilot.press("k")
        assert chat.transcript.scroll_y == chat.transcript.max_scroll_y - 1


async def test_page_keys_scroll_from_the_prompt(
    chatting: Any, make_program: Any, long_conversation: Any
) -> None:
    history, conversation, _ = long_conversation(30)
    async with chatting(program=make_program(history=history), conversation=conversation) as (chat, pilot):
        await pilot.pause()
        await pilot.press("pageup")
        await pilot.pause()
        assert not chat.transcript.following
        assert chat.prompt.has_focus


async def test_short_conversations_begin_at_the_top(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "Hi")
        assert chat.transcript.scroll_y == 0
        assert chat.transcript.views[0].region.y <= 2
