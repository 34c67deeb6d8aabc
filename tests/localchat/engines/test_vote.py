"""Answers drawn side by side: each is the answer of its own seed, and a step computes all of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localchat.engines.generate import Generator
from localchat.engines.llama_cpp import LlamaRuntime
from localchat.engines.process import EngineModel
from localchat.engines.protocol import LoadOptions
from localchat.engines.runtime import Aborted
from localchat.engines.threads import ThreadTuner
from localchat.engines.vote import MOST_TOKENS, MOST_VOTES
from router.errors import InvalidRequest
from router.request import ChatRequest, Delta, Message, ResponseFormat, Sampling
from tests.localchat.engines.fake_runtime import FakeRuntime, generator_of

LETTER = ResponseFormat("regex", "[ABCD]")


def asked(text: str = "hi", **sampling: object) -> ChatRequest:
    return ChatRequest((Message("user", text),), Sampling(**sampling))  # type: ignore[arg-type]  # fields of Sampling


def plain(generator: Generator, request: ChatRequest) -> tuple[str, int]:
    """Text and tokens of an ordinary answer."""
    deltas = [event for event in generator.answer(request) if isinstance(event, Delta)]
    return "".join(delta.text for delta in deltas), sum(len(delta.scores) for delta in deltas)


@settings(max_examples=50, deadline=None)
@given(
    st.integers(1, 5),
    st.sampled_from([0.0, 0.7, 1.5]),
    st.integers(0, 99),
    st.integers(1, 30),
    st.sampled_from([(), ("the",)]),
)
def test_each_vote_is_the_answer_of_its_seed(
    count: int, temperature: float, seed: int, most: int, stop: tuple[str, ...]
) -> None:
    runtime = FakeRuntime()
    generator = generator_of(runtime)
    request = asked(temperature=temperature, seed=seed, max_tokens=most, stop=stop)
    votes = generator.vote(request, count)
    answers, sizes = [], []
    for number in range(count):
        seeded = replace(request, sampling=replace(request.sampling, seed=seed + number))
        text, tokens = plain(generator_of(FakeRuntime()), seeded)
        answers.append(text)
        sizes.append(tokens)
    assert list(votes.answers) == answers
    assert votes.decode_calls <= max(sizes)
    assert votes.decode_calls == len(runtime.branch_calls)
    assert runtime.open_branches == 0


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(0, 99))
def test_a_grammar_binds_every_vote_and_one_letter_needs_no_decoding(count: int, seed: int) -> None:
    generator = generator_of(FakeRuntime())
    request = replace(asked(temperature=1.0, seed=seed), response_format=LETTER)
    votes = generator.vote(request, count)
    assert all(answer in set("ABCD") for answer in votes.answers)
    assert votes.decode_calls == 0


def test_votes_are_short_and_few() -> None:
    generator = generator_of(FakeRuntime(chatty=10_000))
    votes = generator.vote(asked(temperature=0.0), 2)
    assert votes.decode_calls == MOST_TOKENS - 1
    for count in (0, MOST_VOTES + 1):
        with pytest.raises(InvalidRequest, match=str(count)):
            generator.vote(asked(), count)


def test_an_answer_goes_on_from_a_prompt_that_was_voted_on() -> None:
    runtime = FakeRuntime()
    generator = generator_of(runtime)
    request = asked("tell me", temperature=0.0, max_tokens=20)
    before = plain(generator_of(FakeRuntime()), request)
    generator.vote(request, 3)
    runtime.evals.clear()
    assert plain(generator, request) == before
    assert len(runtime.evals[0]) == 1  # the rest of the prompt was in the cache


def test_a_stop_ends_the_vote_and_frees_the_branches() -> None:
    runtime = FakeRuntime(chatty=10_000)
    generator = generator_of(runtime)
    generator.vote(asked(temperature=0.0, max_tokens=1), 1)  # the prompt is computed
    runtime.abort_at = 2
    with pytest.raises(Aborted):
        generator.vote(asked(temperature=0.0, max_tokens=20), 3)
    assert runtime.open_branches == 0


@pytest.mark.real_model
def test_four_votes_of_the_default_model_cost_the_steps_of_one(real_runtime: LlamaRuntime) -> None:
    real_runtime.keep(0)
    tuners = ThreadTuner((1,), 1), ThreadTuner((1,), 1)
    generator = Generator(real_runtime, real_runtime.vocabulary_size, *tuners)
    steps = {1: 0, 4: 0}
    for text in ("Count from one to twenty in words.", "Write about the sea.", "What is a cat?"):
        for count in steps:
            votes = generator.vote(asked(text, temperature=0.8, seed=1, max_tokens=16), count)
            steps[count] += votes.decode_calls
            assert len(votes.answers) == count
    assert steps[4] <= 1.3 * steps[1]


@pytest.mark.real_model
def test_votes_of_the_default_model_are_its_answers(real_runtime: LlamaRuntime) -> None:
    real_runtime.keep(0)
    tuners = ThreadTuner((1,), 1), ThreadTuner((1,), 1)
    generator = Generator(real_runtime, real_runtime.vocabulary_size, *tuners)
    request = asked("What is the capital of France? One short sentence.", temperature=0.0, max_tokens=12)
    text, _ = plain(generator, request)
    votes = generator.vote(request, 4)
    assert votes.answers == (text,) * 4


async def test_votes_cross_the_process(tiny_model: Path) -> None:
    model = EngineModel("tiny", LoadOptions(str(tiny_model), threads=1, prefill_threads=1))
    try:
        votes = await model.vote(asked("hi", temperature=1.0, seed=1, max_tokens=4), 3)
    finally:
        await model.close()
    assert len(votes.answers) == 3
    assert votes.decode_calls <= 3
