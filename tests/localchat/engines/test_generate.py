"""The loop from prompt to answer, over a runtime that shows any mistake of the cache."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from localchat.engines.generate import Generator
from router.errors import ContextOverflow, InvalidRequest
from router.request import (
    ChatRequest,
    Delta,
    Event,
    Finished,
    Message,
    Notice,
    Progress,
    ResponseFormat,
    Sampling,
)
from tests.localchat.engines import reference
from tests.localchat.engines.fake_runtime import (
    CONTROLS,
    END,
    MARK,
    VOCABULARY,
    FakeRuntime,
    generator_of,
)
from tests.localchat.engines.templates import INST, NO_SYSTEM

GREEDY = Sampling(temperature=0.0, max_tokens=60)
FREE = Sampling(temperature=1.0, seed=5, max_tokens=60)


def ask(*contents: str, sampling: Sampling = GREEDY, wanted: ResponseFormat | None = None) -> ChatRequest:
    """A conversation that begins with the user, roles taking turns."""
    roles = ("user", "assistant")
    messages = tuple(Message(roles[n % 2], text) for n, text in enumerate(contents))  # type: ignore[arg-type]  # made from words
    return ChatRequest(messages, sampling, wanted)


def text_of(events: Sequence[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Delta))


def end_of(events: Sequence[Event]) -> Finished:
    assert isinstance(events[-1], Finished)
    assert sum(isinstance(event, Finished) for event in events) == 1
    return events[-1]


def answer(request: ChatRequest, runtime: FakeRuntime | None = None) -> list[Event]:
    return list(generator_of(runtime or FakeRuntime()).answer(request))


# -- what comes out


@pytest.mark.parametrize(
    "sampling", [GREEDY, FREE, replace(GREEDY, repeat_penalty=1.3), replace(FREE, stop=("a",))]
)
def test_one_finished_comes_last_and_its_usage_adds_up(sampling: Sampling) -> None:
    runtime = FakeRuntime()
    generator = generator_of(runtime)
    request = ask("hello", sampling=sampling)
    prompt = generator.prompt_tokens(request.messages)
    events = list(generator.answer(request))
    usage, scores = end_of(events).usage, [s for e in events if isinstance(e, Delta) for s in e.scores]
    assert usage.prompt_tokens == len(prompt)
    assert usage.completion_tokens == len(scores) > 0
    assert usage.cached_tokens == 0
    assert sum(map(len, runtime.evals)) in (len(prompt) + len(scores), len(prompt) + len(scores) - 1)


@pytest.mark.parametrize("sampling", [GREEDY, FREE, replace(FREE, repeat_penalty=1.5, presence_penalty=0.5)])
def test_scores_are_of_the_row_before_penalties_and_temperature(sampling: Sampling) -> None:
    rows: list[list[float]] = []

    class Recording(FakeRuntime):
        def _compute(self, state: int) -> None:
            super()._compute(state)
            rows.append(self._row.tolist())

    runtime = Recording()
    events = answer(ask("hello", sampling=sampling), runtime)
    scores = [score for event in events if isinstance(event, Delta) for score in event.scores]
    prompt_tokens = end_of(events).usage.prompt_tokens
    said = [token for chunk in runtime.evals for token in chunk][prompt_tokens:]
    assert said
    for row, token, score in zip(rows, said, scores, strict=False):
        expected = reference.score(row, token)
        assert (score.logprob, score.margin, score.entropy) == pytest.approx(
            (expected.logprob, expected.margin, expected.entropy), abs=1e-3
        )


def test_the_same_seed_says_the_same_and_no_seed_something_else() -> None:
    request = ask("hello", sampling=FREE)
    assert text_of(answer(request)) == text_of(answer(request))
    unseeded = ask("hello", sampling=replace(FREE, seed=None))
    assert len({text_of(answer(unseeded)) for _ in range(4)}) > 1


def test_greedy_is_the_likeliest_whichever_way_it_is_computed() -> None:
    plain = text_of(answer(ask("hello")))
    penalised_by_nothing = replace(GREEDY, repeat_penalty=1.0 + 1e-9)
    assert text_of(answer(ask("hello", sampling=penalised_by_nothing))) == plain


def test_the_text_is_that_of_the_tokens() -> None:
    runtime = FakeRuntime()
    events = answer(ask("hello"), runtime)
    said = runtime.tokens[end_of(events).usage.prompt_tokens :]
    assert b"".join(VOCABULARY[t] for t in said).decode("utf-8", "replace").startswith(text_of(events)[:-1])


# -- where it ends


@pytest.mark.parametrize("most", [1, 2, 7])
def test_max_tokens(most: int) -> None:
    end = end_of(answer(ask("hello", sampling=replace(FREE, max_tokens=most)), FakeRuntime(chatty=10**9)))
    assert (end.finish_reason, end.usage.completion_tokens) == ("length", most)


def test_an_end_token_is_no_part_of_the_answer() -> None:
    runtime = FakeRuntime(chatty=2)
    events = answer(ask("hello"), runtime)
    assert end_of(events).finish_reason == "stop"
    assert not any(control in text_of(events) for control in CONTROLS)
    assert end_of(events).usage.completion_tokens < 60


@pytest.mark.parametrize("length", [1, 2, 3, 5])
def test_a_stop_string_ends_the_answer_and_is_not_shown(length: int) -> None:
    whole = text_of(answer(ask("hello"), FakeRuntime(chatty=10**9)))
    stop = whole[10 : 10 + length]
    request = ask("hello", sampling=replace(GREEDY, stop=("never said", stop)))
    events = answer(request, FakeRuntime(chatty=10**9))
    assert end_of(events).finish_reason == "stop"
    assert text_of(events) == whole[: whole.index(stop)]


def test_a_full_window_ends_the_answer() -> None:
    prompt = end_of(answer(ask("hello"))).usage.prompt_tokens
    for sampling in (replace(GREEDY, max_tokens=None), replace(GREEDY, max_tokens=1000)):
        end = end_of(answer(ask("hello", sampling=sampling), FakeRuntime(prompt + 20, chatty=10**9)))
        assert (end.finish_reason, end.usage.completion_tokens) == ("context", 20)


def test_max_tokens_that_just_fit_are_a_length() -> None:
    prompt = end_of(answer(ask("hello"))).usage.prompt_tokens
    request = ask("hello", sampling=replace(GREEDY, max_tokens=20))
    assert end_of(answer(request, FakeRuntime(prompt + 20, chatty=10**9))).finish_reason == "length"


@pytest.mark.parametrize(("most", "reserved"), [(None, 16), (1, 1), (5, 5), (400, 16)])
def test_a_prompt_too_long_is_refused_with_exact_counts_and_nothing_computed(
    most: int | None, reserved: int
) -> None:
    prompt = end_of(answer(ask("hello"))).usage.prompt_tokens
    request = ask("hello", sampling=replace(GREEDY, max_tokens=most))
    answer(request, FakeRuntime(prompt + reserved))
    runtime = FakeRuntime(prompt + reserved - 1)
    with pytest.raises(ContextOverflow, match="1 too many") as caught:
        answer(request, runtime)
    error = caught.value
    counts = (error.prompt_tokens, error.window_tokens, error.reserved_tokens)
    assert counts == (prompt, prompt + reserved - 1, reserved)
    assert runtime.evals == []


def test_a_refused_prompt_leaves_the_cache_of_the_last_answer() -> None:
    runtime = FakeRuntime(400)
    generator = generator_of(runtime)
    list(generator.answer(ask("hello")))
    with pytest.raises(ContextOverflow):
        list(generator.answer(ask("x" * 1000)))
    assert end_of(list(generator.answer(ask("hello")))).usage.cached_tokens > 0


# -- prefill


@pytest.mark.parametrize("size", [10, 500, 5000])
def test_progress_ascends_to_the_whole_prompt(size: int) -> None:
    events = answer(ask("x" * size))
    progress = [event for event in events if isinstance(event, Progress)]
    total = end_of(events).usage.prompt_tokens
    assert {(p.stage, p.total, p.unit) for p in progress} <= {("prefill", total, "tokens")}
    done = [p.done for p in progress]
    assert done == sorted(set(done))
    assert events[: len(done)] == progress
    assert progress[0] == Progress("prefill", 0, total, "tokens")
    measured = progress[1:]
    assert bool(measured) == (size > 100)
    if measured:
        assert done[-1] == total
        assert all(p.rate_per_s and p.seconds_left is not None and p.seconds_left >= 0 for p in measured)


def test_progress_of_a_prompt_partly_cached_begins_there() -> None:
    generator = generator_of(FakeRuntime())
    list(generator.answer(ask("x" * 3000)))
    events = list(generator.answer(ask("x" * 3000 + "y" * 1000)))
    cached, progress = end_of(events).usage.cached_tokens, [e for e in events if isinstance(e, Progress)]
    assert cached >= 3000
    assert progress[0] == Progress("prefill", cached, progress[0].total, "tokens")
    assert cached < progress[1].done < progress[-1].done == progress[0].total


def test_an_empty_prompt_is_refused() -> None:
    runtime = FakeRuntime(template="{# nothing #}")
    generator = generator_of(runtime)
    with pytest.raises(InvalidRequest, match="empty"):
        list(generator.answer(ask("hello")))
    assert runtime.evals == []


@pytest.mark.parametrize("turns", range(4, 12))
def test_short_turns_do_not_change_the_threads_of_the_prefill(
    turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A chunk of few tokens costs more a token: that is no contention."""
    now = 0.0
    long_chunks: list[int] = []

    class Timed(FakeRuntime):
        def eval(self, tokens: Sequence[int]) -> None:
            nonlocal now
            threads = self.threads[-1][1] if self.threads else 2
            now += (0.003 + 0.0001 * len(tokens)) / (1.8 if threads == 2 else 1.0)
            if len(tokens) >= 256:
                long_chunks.append(threads)
            super().eval(tokens)

    monkeypatch.setattr("localchat.engines.generate.time.perf_counter", lambda: now)
    generator = generator_of(Timed(32_768), (1, 2))
    list(generator.answer(ask("x" * 20_000)))
    for turn in range(turns):
        list(generator.answer(ask(f"{turn}", sampling=replace(GREEDY, max_tokens=2))))
    long_chunks.clear()
    list(generator.answer(ask("y" * 20_000)))
    assert len(long_chunks) >= 9
    assert long_chunks.count(2) >= 0.8 * len(long_chunks)


# -- templates and control tokens


@pytest.mark.parametrize("control", CONTROLS)
@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_no_control_token_can_be_typed(control: str, role: str) -> None:
    runtime = FakeRuntime()
    said = [Message("system", ""), Message("user", "a"), Message("assistant", "b"), Message("user", "c")]
    evil = [replace(m, content=f"x{control}{control}y") if m.role == role else m for m in said]
    generator = generator_of(runtime)
    plain, typed = generator.prompt_tokens(said), generator.prompt_tokens(evil)
    count = 256 + CONTROLS.index(control)
    assert typed.count(count) == plain.count(count)
    assert b"".join(VOCABULARY[t] for t in typed).count(control.encode() * 2) == sum(
        m.role == role for m in said
    )


def test_a_control_token_said_by_the_model_is_not_shown() -> None:
    class Marking(FakeRuntime):
        def _compute(self, state: int) -> None:
            super()._compute(state)
            self._row[MARK] = 50.0

    events = answer(ask("hello", sampling=replace(GREEDY, max_tokens=5)), Marking())
    assert (text_of(events), end_of(events).usage.completion_tokens) == ("", 5)


@pytest.mark.parametrize("template", [NO_SYSTEM, INST])
def test_the_first_token_is_there_once(template: str) -> None:
    generator = generator_of(FakeRuntime(template=template, bos="<s>"))
    assert generator.prompt_tokens([Message("user", "hi")]).count(256) == 1
    assert generator.prompt_tokens([Message("user", "<s>")]).count(256) == 1


def test_a_refusing_template_is_an_invalid_request() -> None:
    generator = generator_of(FakeRuntime(template=NO_SYSTEM))
    with pytest.raises(InvalidRequest, match="roles must alternate"):
        list(generator.answer(ask("a").__class__((Message("user", "a"), Message("user", "b")))))
    assert end_of(list(generator.answer(ask("a"))))


def test_a_broken_template_is_an_invalid_request_each_time() -> None:
    generator = generator_of(FakeRuntime(template="{% broken"))
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="chat template is invalid"):
            list(generator.answer(ask("a")))


def test_a_file_without_a_template_is_said_to_be_one_once() -> None:
    generator = generator_of(FakeRuntime(template=""))
    first, second = (list(generator.answer(ask("a"))) for _ in range(2))
    assert [isinstance(event, Notice) for event in first].count(True) == 1
    assert not any(isinstance(event, Notice) for event in second)


# -- constraints


def test_an_answer_follows_its_constraint_and_forced_tokens_are_flagged() -> None:
    wanted = ResponseFormat("regex", r"[ab]{3}x=<\|zzz\|>")
    events = answer(ask("hello", wanted=wanted))
    assert text_of(events)[3:] == "x=<|zzz|>"
    assert set(text_of(events)[:3]) <= set("ab")
    assert end_of(events).finish_reason == "stop"
    scores = [score for event in events if isinstance(event, Delta) for score in event.scores]
    assert [score.forced for score in scores][-9:] == [True] * 9
    assert not scores[0].forced
    assert all(math.isfinite(score.logprob) for score in scores)


def test_a_constraint_that_does_not_compile_computes_nothing() -> None:
    runtime = FakeRuntime()
    with pytest.raises(InvalidRequest, match="regular expression"):
        answer(ask("hello", wanted=ResponseFormat("regex", "(")), runtime)
    assert runtime.evals == []


def test_the_row_of_the_runtime_is_never_left_without_its_best_token() -> None:
    runtime = FakeRuntime()
    generator: Generator = generator_of(runtime)
    list(generator.answer(ask("hello", sampling=replace(GREEDY, max_tokens=3))))
    assert np.isfinite(runtime.logits()).all()
    assert len(runtime.logits()) > END
