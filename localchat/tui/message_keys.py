"""What the keys do to the selected message.

Owns the meaning of each key; the transcript says which message, the chat runs
what follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localchat.tui import clipboard
from localchat.tui.message import MessageView, ReplyView
from localchat.tui.streaming import code_blocks

if TYPE_CHECKING:
    from localchat.tui.chat import ChatScreen

HINTS = "c copy  b code  e edit  r again  o other side  w why  [ ] branch  x leave out  f from here"


class MessageKeys:
    """Each method is a key; without a selected message it means the last reply."""

    def __init__(self, chat: ChatScreen) -> None:
        self._chat = chat
        self._block = (0, 0)  # (message id, number of the code block copied last)

    @property
    def view(self) -> MessageView | None:
        transcript = self._chat.transcript
        return transcript.selected or transcript.last_reply()

    async def copy(self) -> None:
        if view := self.view:
            text = view.copy_text
            await clipboard.copy(self._chat.app, text, f"the message ({len(text):,} characters)")

    async def copy_block(self, number: int = 0) -> None:
        """The code block ``number``, counted from 1; 0 takes the next one at each press."""
        view = self.view
        blocks = code_blocks(view.copy_text) if view else []
        if not view or not blocks:
            self._chat.tell("There is no code block in this message.")
            return
        if number == 0:
            message_id, last = self._block
            number = last % len(blocks) + 1 if message_id == view.stored.id else 1
        if number > len(blocks):
            self._chat.tell(f"This message has {len(blocks)} code block{'s' * (len(blocks) != 1)}.")
            return
        self._block = (view.stored.id, number)
        await clipboard.copy(self._chat.app, blocks[number - 1][1], f"code block {number} of {len(blocks)}")

    def edit(self) -> None:
        view = self._chat.transcript.selected or self._chat.transcript.last_user()
        if view and view.stored.role == "user":
            self._chat.begin_edit(view.stored)
        else:
            self._chat.tell("Only your own messages can be edited.")

    async def regenerate(self) -> None:
        view = self._chat.transcript.selected or self._chat.transcript.last_reply()
        view = view or self._chat.transcript.last_user()
        if view and view.stored.kind == "message" and (view.stored.role == "user" or view.stored.parent_id):
            await self._chat.regenerate(view.stored)
        else:
            self._chat.tell("There is nothing to answer again.")

    def rate(self, good: bool) -> None:
        self._chat.routes.rate(self.view, "good" if good else "bad")

    async def redo(self) -> None:
        await self._chat.routes.redo(self.view)

    async def reject(self) -> None:
        await self._chat.routes.reject(self.view)

    async def why(self) -> None:
        await self._chat.routes.why(self.view)

    async def switch(self, step: int) -> None:
        view = self.view
        if view is None or view.stored.sibling_count < 2:
            self._chat.tell("There is only one branch here.")
        elif await self._chat.idle():
            self._chat.session.switch_branch(view.stored.id, step)
            await self._chat.show_messages()
            path = self._chat.session.transcript()
            await self._chat.transcript.reveal(
                next(m.id for m in path if m.parent_id == view.stored.parent_id)
            )

    def exclude(self) -> None:
        view = self._chat.transcript.selected
        if view is None:
            return
        ids = [view.stored.id]
        (self._chat.session.room.restore if view.stored.excluded else self._chat.session.room.drop)(ids)
        self._chat.refresh_messages(ids)

    async def resume(self) -> None:
        view = self._chat.transcript.selected
        if view and await self._chat.idle():
            self._chat.session.resume_from(view.stored.id)
            await self._chat.show_messages()
            self._chat.prompt.focus()
            self._chat.tell("The next message goes on from here. Later messages stay on their branch.")

    def toggle(self) -> None:
        view = self.view
        if view:
            view.toggle()

    def toggle_reasoning(self) -> None:
        if isinstance(view := self.view, ReplyView):
            view.toggle()
