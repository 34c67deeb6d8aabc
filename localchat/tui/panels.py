"""Opens the panels over the chat and does what was chosen in them.

Knows which panel is for what; a panel itself only returns a choice. Each is
imported when it is first opened: the first paint does not wait for them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from localchat.errors import LocalchatError
from localchat.tui.panel import Panel
from router.errors import ContextOverflow, RouterError

if TYPE_CHECKING:
    from localchat.tui.chat import ChatScreen
    from localchat.tui.conversations import Chosen
    from localchat.tui.overflow import Choice
    from localchat.tui.parameters import Parameters

Result = TypeVar("Result")


class Panels:
    def __init__(self, chat: ChatScreen) -> None:
        self._chat = chat

    def _open(self, panel: Panel[Result], then: Callable[[Result | None], Awaitable[None]]) -> None:
        """Show ``panel``; what fails in ``then`` is told, not raised."""

        async def guarded(result: Result | None) -> None:
            try:
                await then(result)
            except (LocalchatError, RouterError) as error:
                self._chat.notify_error(error)

        self._chat.app.push_screen(panel, guarded)

    async def open_chosen(self, chosen: Chosen | None) -> None:
        if chosen is None:
            await self._forget_deleted()
            return
        await self._chat.idle()
        self._chat.save_draft()
        if chosen.message_id is not None:
            self._chat.session.resume_from(self._chat.program.history.leaf_below(chosen.message_id))
        else:
            self._chat.session.open(chosen.conversation_id)
        await self._chat.show_conversation()
        if chosen.message_id is not None:
            await self._chat.transcript.reveal(chosen.message_id)

    async def _forget_deleted(self) -> None:
        """The panel may have renamed or deleted the conversation that is open."""
        if self._chat.session.conversation:
            try:
                self._chat.session.open(self._chat.session.conversation.id)
                self._chat.show_title()
            except LocalchatError:
                self._chat.session.start_new()
                await self._chat.show_conversation()

    async def delete_if(self, yes: bool | None) -> None:
        if yes and self._chat.session.conversation:
            await self._chat.idle()
            self._chat.program.history.delete(self._chat.session.conversation.id)
            self._chat.session.start_new()
            await self._chat.show_conversation()

    # -- making room

    async def offer_room(self, error: ContextOverflow) -> None:
        from localchat.tui.overflow import OverflowPanel, sized

        turns = await sized(self._chat.session, self._chat.program.model.count_tokens)
        self._open(OverflowPanel(error, turns), self._make_room)

    async def _make_room(self, choice: Choice | None) -> None:
        question = self._chat.transcript.last_user()
        if choice is None or question is None:
            return
        if choice.action == "edit":
            self._chat.begin_edit(question.stored)
        elif choice.action == "drop":
            self._chat.session.room.drop(choice.message_ids)
            self._chat.refresh_messages(choice.message_ids)
            await self._chat.regenerate(question.stored)
        elif question.stored.parent_id is not None:
            # The summary has to stand before the question, so the question is asked again below it.
            self._chat.session.resume_from(question.stored.parent_id)
            await self.summarise(choice.message_ids, then_send=question.stored.content)

    async def summarise(self, message_ids: Sequence[int], then_send: str = "") -> None:
        """Replace messages by a summary; ``then_send`` is said after it, or kept in the prompt."""
        await self._chat.idle()

        async def then(done: bool) -> None:
            await self._chat.show_messages()
            if then_send and done:
                self._chat.turns.start(self._chat.session.send(then_send))
            elif then_send:
                self._chat.prompt.put(then_send)

        self._chat.turns.summarise(message_ids, then)

    # -- panels

    def conversations(self, search: str = "") -> None:
        from localchat.tui.conversations import ConversationsPanel

        panel = ConversationsPanel(self._chat.program.history, search, self._chat.draft_key)
        self._open(panel, self.open_chosen)

    def models(self) -> None:
        from localchat.tui.model_picker import ModelPicker

        picker = ModelPicker(self._chat.program.catalog, self._chat.program.model.model)
        self._open(picker, self.use_model)

    async def use_model(self, name: str | None) -> None:
        if name is None:
            return
        await self._chat.idle()
        await self._chat.program.use_model(name)
        self._chat.turns.load_model()

    def parameters(self, focus: str = "temperature") -> None:
        from localchat.tui.parameters import ParametersPanel

        panel = ParametersPanel(self._chat.session.sampling, self._chat.session.system, focus)
        self._open(panel, self._set_parameters)

    def speed(self) -> None:
        from localchat.tui.speed_panel import SpeedPanel

        async def nothing(_: None) -> None:
            """There is nothing to choose."""

        self._open(SpeedPanel(self._chat.turns.speed_report), nothing)

    async def _set_parameters(self, parameters: Parameters | None) -> None:
        if parameters:
            self._chat.session.sampling = parameters.sampling
            if parameters.system != self._chat.session.system:
                self._chat.session.system = parameters.system
            self._chat.tell("Parameters apply from the next reply on.")
