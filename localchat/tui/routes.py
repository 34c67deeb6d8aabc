"""Who answers: this machine, the cloud, or whichever is better; and why it was so.

Owns the switch, its words in the status line, and what a person is asked before something
leaves the machine. Decides nothing about a question: that is the router's business.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from localchat.card import Card
from localchat.card_text import marks, summary
from localchat.errors import LocalchatError
from localchat.tui.message import MessageView, ReplyView
from router.decision import Decision, Mode
from router.errors import RouterError

if TYPE_CHECKING:
    from localchat.tui.chat import ChatScreen
    from router.consent import Consent, Departure
    from router.ledger import LabelName

MODES: tuple[Mode, ...] = get_args(Mode)
_MEANING = {
    "local": "Every answer comes from this machine.",
    "auto": "Easy questions stay here, hard or oversized ones go to {cloud}.",
    "cloud": "Every answer comes from {cloud}.",
}


class Routes:
    def __init__(self, chat: ChatScreen) -> None:
        self._chat = chat

    def show(self) -> None:
        """Say in the status line who answers, and what that has cost."""
        session, cloud = self._chat.session, self._chat.program.cloud
        mode: str = "pinned here" if session.pinned else session.mode
        if cloud is None:
            mode = "offline"
        elif cloud.simulated and mode in ("auto", "cloud"):
            mode = f"{mode}, SIMULATED"
        spent = cloud.spent_text() if cloud and mode not in ("local", "pinned here") else ""
        status = self._chat.status
        status.show(replace(status.status, mode=mode, spent=spent))

    @property
    def in_question(self) -> bool:
        """Whether a question might go elsewhere."""
        session = self._chat.session
        return self._chat.program.cloud is not None and session.mode != "local" and not session.pinned

    async def foreseen(self) -> Decision | None:
        """Where what is being written would go; None where there is no question of it."""
        text = self._chat.prompt.full_text
        if not self.in_question or not text.strip():
            return None
        session = self._chat.session
        with suppress(LocalchatError, RouterError):  # what is wrong is told when it is sent
            return await session.dispatch.decide(session.request_if_sent(text), session.turn())
        return None

    def preview(self, text: str) -> None:
        """Show exactly what would leave with ``text``."""
        from localchat.tui.route_panels import PreviewPanel

        cloud = self._chat.program.cloud
        if cloud and self._may_leave():
            departure = cloud.departure(self._chat.session.request_if_sent(text))
            self._chat.app.push_screen(PreviewPanel(departure))

    async def ask_before_leaving(self, departure: Departure) -> Consent:
        """What a person decides of what was found; a closed panel keeps it here."""
        from localchat.tui.route_panels import ConsentPanel

        decided: asyncio.Future[Consent] = asyncio.get_running_loop().create_future()

        def settle(consent: Consent | None) -> None:
            if not decided.done():
                decided.set_result(consent or "keep")

        self._chat.app.push_screen(ConsentPanel(departure), settle)
        return await decided

    def promise(self) -> str:
        """What a person may rely on as things stand."""
        cloud = self._chat.program.cloud
        if cloud is None or not self.in_question:
            return "Everything stays on this machine."
        what = "Hard questions go" if self._chat.session.mode == "auto" else "Every question goes"
        return f"{what} to {cloud.name}. f5 changes that, /pin keeps a conversation here."

    def next_mode(self) -> None:
        at = MODES.index(self._chat.session.mode)
        self._set(MODES[(at + 1) % len(MODES)])

    async def use(self, mode: Mode, text: str) -> None:
        """Send ``text`` this way; without a text, everything from now on."""
        if not text:
            self._set(mode)
        elif mode == "local" or self._may_leave():
            self._chat.prompt.clear_sent()
            await self._chat.send(text, mode)

    def pin(self) -> None:
        session = self._chat.session
        session.pinned = not session.pinned
        self.show()
        self._chat.typing_paused()
        self._chat.tell(
            "This conversation stays on this machine. /pin again lets it go."
            if session.pinned
            else "This conversation is no longer kept on this machine."
        )

    async def redo(self, view: MessageView | None) -> None:
        """Ask again on the other side; both answers stay, as branches."""
        if not isinstance(view, ReplyView) or view.stored.parent_id is None:
            self._chat.tell("There is no answer to ask for again.")
            return
        card = view.stored.card
        mode: Mode = "local" if card and card.route == "cloud" else "cloud"
        if mode == "local" or self._may_leave():
            if mode == "cloud":
                self._label(card, "redone in the cloud")
            await self._chat.regenerate(view.stored, mode)

    async def reject(self, view: MessageView | None) -> None:
        """A stored answer was wrong: it goes, counts against the cache, and the question is asked anew."""
        routing, card = self._chat.program.routing, view.stored.card if view else None
        if not (view and routing and card and card.cache):
            self._chat.tell("This answer does not come from the cache.")
            return
        self._label(card, "rejected")
        if trouble := await routing.reject(card.cache.entry):
            self._chat.tell(f"The stored answer stays: {trouble}.", "warning")
        if self._may_leave():  # not fresh: the answer that comes now is to be kept
            await self._chat.regenerate(view.stored, "cloud", fresh=False)

    def rate(self, view: MessageView | None, label: LabelName) -> None:
        """Keep what a person says of an answer: later ones are judged by it."""
        if view and self._label(view.stored.card, label):
            self._chat.tell(f"Noted as a {label} answer.")
        else:
            self._chat.tell("This answer is not in the ledger.")

    def _label(self, card: Card | None, label: LabelName) -> bool:
        routing = self._chat.program.routing
        if not (routing and card and card.entry):
            return False
        routing.label(card.entry, label)
        return True

    async def why(self, view: MessageView | None) -> None:
        from localchat.tui.route_panels import StoryPanel

        card = view.stored.card if view else None
        if card is None:
            self._chat.tell("It was not recorded where this came from.")
            return
        routing = self._chat.program.routing
        lines = await asyncio.to_thread(routing.story, card.entry) if routing and card.entry else ()
        self._chat.app.push_screen(StoryPanel(lines or [summary(card), *marks(card)]))

    def _set(self, mode: Mode) -> None:
        if mode != "local" and not self._may_leave():
            return
        self._chat.session.mode = mode
        self.show()
        self._chat.typing_paused()  # what is being written goes another way now
        cloud = self._chat.program.cloud
        self._chat.tell(_MEANING[mode].format(cloud=cloud.name if cloud else ""))

    def _may_leave(self) -> bool:
        if self._chat.program.cloud is None:
            self._chat.tell("Offline: everything is answered on this machine.", "warning")
        elif self._chat.session.pinned:
            self._chat.tell("This conversation is pinned to this machine. /pin lets it go.", "warning")
        else:
            return True
        return False
