"""Laws of the tree of messages, against a model of it in plain Python."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from localchat.history import History


def ticking() -> Callable[[], float]:
    """A clock that never stands still, so that "last" is never a matter of luck."""
    ticks = itertools.count(1)
    return lambda: next(ticks) / 1000


@dataclass
class Said:
    conversation: int
    parent: int | None
    content: str
    touched: int
    state: str = "done"
    excluded: bool = False


@dataclass
class Told:
    leaf: int | None = None
    written: int = 0
    draft: str = ""
    messages: dict[int, Said] = field(default_factory=dict)


class TreeOfMessages(RuleBasedStateMachine):
    """Adds, edits, streams, resumes, deletes and reopens in any order; nothing else may change anything."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.now = ticking()
        self.history = History(self.folder / "history.db", self.now)
        self.model: dict[int, Told] = {}
        self.turn = itertools.count(1)

    def teardown(self) -> None:
        self.history.close()
        shutil.rmtree(self.folder)

    def pick(self, data: st.DataObject) -> tuple[Told, int]:
        told = data.draw(st.sampled_from([told for told in self.model.values() if told.messages]))
        return told, data.draw(st.sampled_from(list(told.messages)))

    def said_anything(self) -> bool:
        return any(told.messages for told in self.model.values())

    def add(self, conversation: int, parent: int | None, content: str, state: str) -> None:
        added = self.history.add(conversation, parent, "user", content, state=state)
        told = self.model[conversation]
        told.leaf, told.written = added.id, next(self.turn)
        told.messages[added.id] = Said(conversation, parent, content, told.written, state)

    @rule()
    def begin(self) -> None:
        self.model[self.history.new_conversation().id] = Told()

    @precondition(lambda self: self.model)
    @rule(data=st.data(), content=st.text(max_size=5))
    def say_first(self, data: st.DataObject, content: str) -> None:
        self.add(data.draw(st.sampled_from(list(self.model))), None, content, "done")

    @precondition(said_anything)
    @rule(data=st.data(), content=st.text(max_size=5), state=st.sampled_from(["done", "streaming"]))
    def reply(self, data: st.DataObject, content: str, state: str) -> None:
        told, parent = self.pick(data)
        self.add(told.messages[parent].conversation, parent, content, state)

    @precondition(said_anything)
    @rule(data=st.data(), content=st.text(max_size=5))
    def edit(self, data: st.DataObject, content: str) -> None:
        told, edited = self.pick(data)
        self.add(told.messages[edited].conversation, told.messages[edited].parent, content, "done")

    @precondition(said_anything)
    @rule(
        data=st.data(), content=st.text(max_size=5), state=st.sampled_from(["streaming", "done", "stopped"])
    )
    def stream(self, data: st.DataObject, content: str, state: str) -> None:
        told, message = self.pick(data)
        self.history.update(message, content=content, state=state)
        said = told.messages[message]
        said.content, said.state, said.touched = content, state, next(self.turn)
        if state != "streaming":
            told.written = said.touched

    @precondition(said_anything)
    @rule(data=st.data(), excluded=st.booleans())
    def exclude(self, data: st.DataObject, excluded: bool) -> None:
        told, message = self.pick(data)
        self.history.set_excluded([message], excluded)
        told.messages[message].excluded = excluded

    @precondition(said_anything)
    @rule(data=st.data())
    def resume(self, data: st.DataObject) -> None:
        told, message = self.pick(data)
        self.history.set_leaf(told.messages[message].conversation, message)
        told.leaf = message

    @precondition(lambda self: self.model)
    @rule(data=st.data(), text=st.text(max_size=5))
    def type_a_draft(self, data: st.DataObject, text: str) -> None:
        conversation = data.draw(st.sampled_from(list(self.model)))
        self.history.save_draft(conversation, text)
        self.model[conversation].draft = text

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        conversation = data.draw(st.sampled_from(list(self.model)))
        self.history.delete(conversation)
        del self.model[conversation]

    @rule()
    def reopen(self) -> None:
        self.history.close()
        self.history = History(self.folder / "history.db", self.now)

    @invariant()
    def lists_what_was_written_last_first(self) -> None:
        with_messages = [id for id, told in self.model.items() if told.messages]
        last_first = sorted(with_messages, key=lambda id: self.model[id].written, reverse=True)
        assert [info.id for info in self.history.conversations()] == last_first

    @invariant()
    def keeps_every_conversation(self) -> None:
        for id, told in self.model.items():
            info = self.history.conversation(id)
            assert (info.leaf_id, info.message_count) == (told.leaf, len(told.messages))
            assert self.history.draft(id) == told.draft
            assert [message.id for message in self.history.tree(id)] == list(told.messages)

    @invariant()
    def keeps_every_message(self) -> None:
        for told in self.model.values():
            for id, said in told.messages.items():
                kept = self.history.message(id)
                assert (kept.content, kept.state, kept.excluded) == (said.content, said.state, said.excluded)
                siblings = [other for other, its in told.messages.items() if its.parent == said.parent]
                assert [sibling.id for sibling in self.history.siblings(id)] == siblings
                assert (kept.sibling_index, kept.sibling_count) == (siblings.index(id), len(siblings))

    @invariant()
    def leads_from_root_to_leaf(self) -> None:
        for told in self.model.values():
            parents = {said.parent for said in told.messages.values()}
            last_below: dict[int, int] = {}
            for leaf in sorted(told.messages.keys() - parents, key=lambda id: told.messages[id].touched):
                path = _path(told, leaf)
                assert [message.id for message in self.history.path(leaf)] == path
                assert [message.id for message in self.history.path_tail(leaf, 2)] == path[-2:]
                last_below |= dict.fromkeys(path, leaf)
            assert {id: self.history.leaf_below(id) for id in told.messages} == last_below


def _path(told: Told, leaf: int) -> list[int]:
    path: list[int] = []
    at: int | None = leaf
    while at is not None:
        path.insert(0, at)
        at = told.messages[at].parent
    return path


TestTreeOfMessages = TreeOfMessages.TestCase
TestTreeOfMessages.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
