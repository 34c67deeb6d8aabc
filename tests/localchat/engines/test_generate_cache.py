"""The cache of the last conversation: only what is new is computed, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localchat.engines.generate import Generator
from localchat.engines.runtime import Aborted
from router.request import ChatRequest, Delta, Event, Finished, Message, Sampling
from tests.localchat.engines.fake_runtime import CONTROLS, FakeRuntime, generator_of
from tests.localchat.engines.templates import CHATML, GENERATION, HEADERS, INST

GREEDY = Sampling(temperature=0.0, max_tokens=40)
PIECES = (
    "ab",
    "a",
    "b",
    "the ",
    " the",
    "é",
    "é\n",
    "\n",
    "<|im_end|>",
    "<s>",
    "@@mark@@",
    "user",
    " ",
    "🙂",
    "xyz",
)

typed = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


class Chat:
    """One generator, and the text a fresh one gives to the same request."""

    def __init__(
        self, template: str = CHATML, bos: str = "", sampling: Sampling = GREEDY, chatty: int = 12
    ) -> None:
        def make() -> FakeRuntime:
            return FakeRuntime(template=template, bos=bos, chatty=chatty)

        self.make = make
        self.runtime = self.make()
        self.generator = generator_of(self.runtime)
        self.sampling = sampling

    def ask(self, messages: list[Message]) -> tuple[str, Finished]:
        return run(self.generator, ChatRequest(tuple(messages), self.sampling))

    def fresh(self, messages: list[Message]) -> str:
        return run(generator_of(self.make()), ChatRequest(tuple(messages), self.sampling))[0]


def run(generator: Generator, request: ChatRequest) -> tuple[str, Finished]:
    events = list(generator.answer(request))
    assert isinstance(events[-1], Finished)
    return text_of(events), events[-1]


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def user(text: str) -> Message:
    return Message("user", text)


def computed(end: Finished) -> int:
    return end.usage.prompt_tokens - end.usage.cached_tokens


# -- what is computed


@pytest.mark.parametrize("template", [CHATML, GENERATION], ids=["ChatML", "generation"])
def test_a_second_turn_computes_only_what_is_new(template: str) -> None:
    chat = Chat(template, chatty=6)
    talk = [user("x" * 500)]
    for turn in range(4):
        said, end = chat.ask(talk)
        assert end.finish_reason == "stop"
        talk += [Message("assistant", said), user(f"go on {turn}")]
        kept, prompt = chat.runtime.tokens.copy(), chat.generator.prompt_tokens(talk)
        assert prompt[: len(kept)] == kept
        assert len(prompt) - len(kept) < 40
        chat.runtime.evals.clear()
        assert chat.ask(talk)[1].usage.cached_tokens == len(kept)
        assert chat.runtime.evals[0] == prompt[len(kept) :]


def test_an_edit_computes_from_where_it_differs() -> None:
    chat = Chat()
    talk = [user("x" * 300 + "old" + "y" * 300)]
    chat.ask(talk)
    _, end = chat.ask([user("x" * 300 + "new" + "y" * 300)])
    assert 300 <= end.usage.cached_tokens < 345
    _, end = chat.ask([user("x" * 300 + "new" + "y" * 299)])
    assert end.usage.cached_tokens >= 600


def test_a_regenerated_answer_computes_one_token_of_the_prompt() -> None:
    chat = Chat(sampling=Sampling(temperature=1.0, max_tokens=30))
    talk = [user("x" * 500)]
    chat.ask(talk)
    _, end = chat.ask(talk)
    assert computed(end) == 1


def test_an_answer_that_reads_otherwise_on_its_own_is_still_reused() -> None:
    """Generated letter by letter, the answer would be fewer tokens if it were typed."""

    class Speller(FakeRuntime):
        def _compute(self, state: int) -> None:
            super()._compute(state)
            said = self.tokens[-1]
            self._row[:] = -30.0
            self._row[ord("b") if said == ord("a") else ord("a")] = 1.0
            self._row[258] = 5.0 if self.tokens[-6:] == [*b"ababab"] else -30.0

    runtime = Speller()
    generator = generator_of(runtime)
    said, end = run(generator, ChatRequest((user("hi"),), GREEDY))
    assert (said, end.finish_reason) == ("ababab", "stop")
    assert len(runtime.tokenize(said, special=False, start=False)) == 3
    kept = len(runtime.tokens)
    talk = (user("hi"), Message("assistant", said), user("ho"))
    assert run(generator, ChatRequest(talk, GREEDY))[1].usage.cached_tokens == kept


def test_counting_does_not_disturb_the_cache() -> None:
    chat = Chat()
    chat.ask([user("x" * 300)])
    chat.generator.prompt_tokens([user("something else")])
    assert computed(chat.ask([user("x" * 300)])[1]) == 1


def test_a_state_that_cannot_be_cut_is_computed_anew() -> None:
    chat = Chat()
    chat.runtime.cuttable = False
    talk = [user("x" * 300)]
    first, _ = chat.ask(talk)
    again, end = chat.ask(talk)
    assert (again, end.usage.cached_tokens) == (first, 0)


# -- laws


@given(
    st.sampled_from([(CHATML, ""), (HEADERS, "<s>"), (INST, "<s>")]),
    st.lists(
        st.tuples(st.sampled_from(["go on", "edit", "regenerate", "new"]), typed), min_size=1, max_size=7
    ),
    st.sampled_from([GREEDY, replace(GREEDY, stop=("ab", "e")), replace(GREEDY, temperature=1.0, seed=3)]),
)
@settings(max_examples=60, deadline=None)
def test_a_conversation_says_what_it_would_from_scratch(
    kind: tuple[str, str], moves: list[tuple[str, str]], sampling: Sampling
) -> None:
    chat, talk = Chat(*kind, sampling), [user("hello")]
    for move, text in moves:
        match move:
            case "go on" if talk[-1].role == "assistant":
                talk.append(user(text))
            case "edit" if len(talk) > 2:
                talk = [*talk[:-2][: len(talk) // 2 * 2 - 2], user(text)]
            case "new":
                talk = [user(text)]
            case _:
                talk = talk if talk[-1].role == "user" else talk[:-1]
        said, end = chat.ask(talk)
        assert said == chat.fresh(talk)
        assert end.usage.prompt_tokens >= end.usage.cached_tokens
        talk.append(Message("assistant", said))


@given(
    st.integers(0, 60),
    st.sampled_from(["abort", "close"]),
    st.booleans(),
    st.lists(typed, min_size=1, max_size=3),
)
@settings(max_examples=80, deadline=None)
def test_after_a_stop_anywhere_the_next_answers_are_right(
    at: int, how: str, cuttable: bool, texts: list[str]
) -> None:
    chat = Chat(sampling=replace(GREEDY, temperature=0.8, seed=9), chatty=25)
    chat.runtime.cuttable = cuttable
    talk = [user("x" * 700)]
    said, _ = chat.ask(talk)
    talk += [Message("assistant", said), user("y" * 900)]
    partial = stop_at(chat, talk, at, how)
    for text in texts:  # regenerate, or keep the part that was said and go on
        assert chat.ask(talk)[0] == chat.fresh(talk)
        talk += [Message("assistant", partial), user(text)]
    assert chat.ask(talk)[0] == chat.fresh(talk)


def stop_at(chat: Chat, talk: list[Message], at: int, how: str) -> str:
    events: list[Event] = []
    stream = chat.generator.answer(ChatRequest(tuple(talk), chat.sampling))
    if how == "abort":
        chat.runtime.abort_at = at
        try:
            events.extend(stream)
        except Aborted:
            pass
        finally:
            chat.runtime.abort(False)
    else:
        for event in stream:
            events.append(event)
            if len(events) > at:
                break
        stream.close()  # type: ignore[attr-defined]  # a generator it is
    return text_of(events)


@given(typed, typed)
@settings(max_examples=50, deadline=None)
def test_tokens_of_a_prompt_are_its_text(first: str, second: str) -> None:
    """What was typed is in the prompt, byte for byte, however it is split."""
    runtime = FakeRuntime()
    tokens = generator_of(runtime).prompt_tokens([user(first), Message("assistant", second), user(first)])
    text = b"".join(runtime.piece(t) or CONTROLS[t - 256].encode() for t in tokens).decode()
    assert text.count(f"<|im_start|>user\n{first}<|im_end|>\n") >= 2
    assert f"<|im_start|>assistant\n{second}<|im_end|>\n" in text
