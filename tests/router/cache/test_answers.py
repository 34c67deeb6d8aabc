"""The cache as dispatch meets it: look up, replay, keep; and what it does when things go wrong."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from router.cache.answers import AnswerCache
from router.cache.embed import Vector
from router.cache.hit import Hit, Miss, chunks
from router.cache.key import CacheTarget
from router.cache.serving import Calibration
from router.cache.threshold import Sample
from router.request import CacheHit, ChatRequest, Delta, Finished, Message
from tests.router.cache.fakes import FINISHED, TARGET, FakeEmbedder, FakeGuard, calibration, question

SAME = {"What is osmosis?": "osmosis", "Explain osmosis to us all.": "osmosis", "Define osmosis.": "osmosis"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.db"


@asynccontextmanager
async def opened(
    path: Path,
    *,
    embedder: FakeEmbedder | None = None,
    guard: FakeGuard | None = None,
    calibrated: Callable[[], Calibration] = calibration,
    **others: object,
) -> AsyncGenerator[AnswerCache, None]:
    cache = AnswerCache(
        path,
        embedder or FakeEmbedder(SAME),
        guard or FakeGuard(),
        has_personal_data=lambda text: "SECRET" in text,
        calibration=calibrated,
        **others,  # type: ignore[arg-type]  # the few that a test names
    )
    try:
        yield cache
    finally:
        await cache.close()


async def keep(
    cache: AnswerCache, text: str = "What is osmosis?", answer: str = "A flow.", target: CacheTarget = TARGET
) -> None:
    found = await cache.look_up(question(text), target)
    assert isinstance(found, Miss)
    assert await found.ticket.commit(answer, FINISHED) == ""


async def miss(cache: AnswerCache, request: ChatRequest, target: CacheTarget = TARGET) -> str:
    found = await cache.look_up(request, target)
    assert isinstance(found, Miss)
    found.ticket.abandon()
    return found.reason


async def hit(cache: AnswerCache, text: str, target: CacheTarget = TARGET) -> Hit:
    found = await cache.look_up(question(text), target)
    assert isinstance(found, Hit), found
    return found


async def test_a_repeated_question_hits_and_is_labelled(path: Path) -> None:
    async with opened(path) as cache:
        await keep(cache)
        found = await hit(cache, "  What is   osmosis? ")

    assert found.label.tier == "exact"
    assert found.label.question == "What is osmosis?"
    assert (found.label.similarity, found.label.threshold) == (1.0, 1.0)
    assert 0 <= found.label.age_s < 10
    assert (found.answer, found.avoided_usd) == ("A flow.", 0.002)


async def test_a_paraphrase_hits_and_is_labelled(path: Path) -> None:
    """A hash of the prompt within the partition would kill every such hit (litellm#29086)."""
    async with opened(path) as cache:
        await keep(cache)
        found = await hit(cache, "Define osmosis.")

    assert found.label.tier == "semantic"
    assert found.label.question == "What is osmosis?"
    assert found.label.similarity == pytest.approx(1.0, abs=1e-6)
    assert found.label.threshold == 0.9
    assert found.passed == ("words",)


async def test_a_hit_is_replayed_in_pieces_and_costs_nothing(path: Path) -> None:
    answer = "Water moves.\n\n```py\nx = 1\n```\n" * 20
    async with opened(path) as cache:
        await keep(cache, answer=answer)
        events = list((await hit(cache, "What is osmosis?")).events())

    assert isinstance(events[0], CacheHit)
    assert events[-1] == Finished("stop", model="large-1", cost_usd=0.0)
    pieces = [event.text for event in events if isinstance(event, Delta)]
    assert "".join(pieces) == answer
    assert len(pieces) > 10


@pytest.mark.parametrize("text", ["", " ", "\n", "one", "a b", "  two  spaces ", "long" * 100, "a\n\nb\n"])
def test_pieces_join_to_the_text(text: str) -> None:
    assert "".join(chunks(text, 5)) == text


async def test_a_look_alike_is_refused_and_says_why(path: Path) -> None:
    embedder = FakeEmbedder({"Is it safe?": "safe", "Is it not safe?": "safe"})
    async with opened(path, embedder=embedder, guard=FakeGuard(refused=("not",))) as cache:
        await keep(cache, "Is it safe?")
        found = await cache.look_up(question("Is it not safe?"), TARGET)

    assert isinstance(found, Miss)
    assert found.nearest
    assert found.nearest.refused_by == "not"
    assert found.nearest.similarity == pytest.approx(1.0, abs=1e-6)


async def test_behind_a_look_alike_a_paraphrase_is_found(path: Path) -> None:
    embedder = FakeEmbedder(dict.fromkeys(("Is it not safe?", "Is it safe?", "Would it be safe?"), "safe"))
    async with opened(path, embedder=embedder, guard=FakeGuard(refused=("not",))) as cache:
        await keep(cache, "Is it not safe?", "No.")
        await keep(cache, "Is it safe?", "Yes.")

        assert (await hit(cache, "Would it be safe?")).answer == "Yes."


@pytest.mark.parametrize(
    "other",
    [
        replace(TARGET, profile="bert"),
        replace(TARGET, provider="other"),
        replace(TARGET, model="large-2"),
        replace(TARGET, revision="2026-02"),
    ],
)
async def test_no_answer_crosses_profiles_providers_models_or_revisions(
    path: Path, other: CacheTarget
) -> None:
    """A hard column, not a soft prefix (semantic-router#2134)."""
    async with opened(path) as cache:
        await keep(cache)

        assert await miss(cache, question("What is osmosis?"), other)
        assert await miss(cache, question("Define osmosis."), other)
        assert await hit(cache, "What is osmosis?")


async def test_the_system_prompt_and_the_conversation_count(path: Path) -> None:
    """spring-ai#5256 ignored the one, GPTCache#8 the other."""
    system = Message("system", "Answer as a pirate.")
    history = (Message("user", "Who was Ada Lovelace?"), Message("assistant", "A mathematician."))
    async with opened(path) as cache:
        await keep(cache)
        await keep(cache, "When was she born?", "In 1815.")

        assert await miss(cache, question("What is osmosis?", system))
        assert await miss(cache, question("When was she born?", *history))


async def test_a_follow_up_is_answered_by_the_very_same_conversation_only(path: Path) -> None:
    history = (Message("user", "Who was Ada Lovelace?"), Message("assistant", "A mathematician."))
    async with opened(path) as cache:
        found = await cache.look_up(question("What is osmosis?", *history), TARGET)
        assert isinstance(found, Miss)
        await found.ticket.commit("A flow.", FINISHED)

        assert isinstance(await cache.look_up(question("What is osmosis?", *history), TARGET), Hit)
        assert "conversation" in await miss(cache, question("Define osmosis.", *history))


async def test_sampling_counts(path: Path) -> None:
    """GPTCache#527, litellm#894: keys without max_tokens and temperature."""
    request = question("What is osmosis?")
    async with opened(path) as cache:
        await keep(cache)

        for sampling in (replace(request.sampling, max_tokens=5), replace(request.sampling, temperature=0.0)):
            assert await miss(cache, replace(request, sampling=sampling))


@pytest.mark.parametrize(
    "finished", [Finished("length"), Finished("cancelled"), Finished("tool_calls"), Finished("unknown")]
)
async def test_what_did_not_end_by_itself_is_never_kept(path: Path, finished: Finished) -> None:
    """OmniRoute#12885 stored truncated text."""
    async with opened(path) as cache:
        found = await cache.look_up(question("What is osmosis?"), TARGET)
        assert isinstance(found, Miss)

        assert await found.ticket.commit("A fl", finished)
        assert await miss(cache, question("What is osmosis?"))


async def test_requests_that_have_no_place_here_neither_read_nor_write(path: Path) -> None:
    async with opened(path) as cache:
        await keep(cache)
        for request in (question("What is my balance?"), question("SECRET?"), question("日本の首都は？")):
            found = await cache.look_up(request, TARGET)
            assert isinstance(found, Miss)
            assert await found.ticket.commit("Text.", FINISHED) == found.reason
            assert isinstance(await cache.look_up(request, TARGET), Miss)
        fresh = await cache.look_up(question("What is osmosis?"), TARGET, fresh=True)

    assert isinstance(fresh, Miss)


async def test_other_languages_are_answered_by_the_same_text_only(path: Path) -> None:
    german = {"Was ist die Osmose?": "x", "Erkläre mir die Osmose.": "x"}
    async with opened(path, embedder=FakeEmbedder(german)) as cache:
        await keep(cache, "Was ist die Osmose?")

        assert await hit(cache, "Was ist die Osmose?")
        assert await miss(cache, question("Was ist denn die Osmose?"))


async def test_without_the_embedder_only_the_same_text_hits(path: Path) -> None:
    embedder = FakeEmbedder(SAME, missing=True)
    async with opened(path, embedder=embedder) as cache:
        assert "not installed" in await cache.warm()
        await keep(cache)

        assert (await hit(cache, "What is osmosis?")).label.tier == "exact"
        assert "not installed" in await miss(cache, question("Define osmosis."))


async def test_another_embedder_is_a_miss_and_never_a_mix(path: Path) -> None:
    async with opened(path) as cache:
        await keep(cache)
    other = FakeEmbedder(SAME, id="fake:2")
    async with opened(path, embedder=other, calibrated=lambda: calibration("fake:2")) as cache:
        assert await miss(cache, question("What is osmosis?"))
        assert await miss(cache, question("Define osmosis."))


@pytest.mark.parametrize(
    "of", [calibration(hits=50), calibration(embedder="fake:2"), calibration(guards="guard 2")]
)
async def test_without_a_fitting_sample_paraphrases_are_not_served_and_it_says_why(
    path: Path, of: Calibration
) -> None:
    async with opened(path, calibrated=lambda: of) as cache:
        await keep(cache)

        assert "114" in await miss(cache, question("Define osmosis."))
        assert "114" in await cache.warm()
        assert (await cache.promise()).threshold is None
        assert await hit(cache, "What is osmosis?")


async def test_below_the_threshold_nothing_is_served(path: Path) -> None:
    strict = replace(calibration(), samples=tuple(Sample(1.5, True) for _ in range(200)))
    async with opened(path, calibrated=lambda: strict) as cache:
        await keep(cache)

        assert await miss(cache, question("Define osmosis.")) == "nothing similar was asked"


async def test_a_threshold_of_zero_is_a_value(path: Path) -> None:
    loose = replace(calibration(), samples=tuple(Sample(0.0, True) for _ in range(200)))
    async with opened(path, calibrated=lambda: loose) as cache:
        await keep(cache)

        assert (await hit(cache, "Define osmosis.")).label.threshold == 0.0


async def test_reject_evicts_asks_again_and_counts(path: Path) -> None:
    async with opened(path) as cache:
        await keep(cache)
        found = await hit(cache, "Define osmosis.")
        assert await cache.reject(found.label.entry) == ""

        assert await miss(cache, question("Define osmosis."))
        assert await miss(cache, question("What is osmosis?"))
        assert await cache.reject(found.label.entry) == "it had gone already"


async def test_rejects_that_contradict_the_promise_stop_paraphrases(path: Path) -> None:
    async with opened(path) as cache:
        for _ in range(3):
            if (await cache.promise()).threshold is None:
                break
            await keep(cache)
            await cache.reject((await hit(cache, "Define osmosis.")).label.entry)
        await keep(cache)

        assert "contradicts the promise" in await miss(cache, question("Define osmosis."))
        assert await hit(cache, "What is osmosis?")


async def test_identical_questions_at_once_make_one_call(path: Path) -> None:
    async with opened(path) as cache:
        first = await cache.look_up(question("What is osmosis?"), TARGET)
        assert isinstance(first, Miss)
        others = [asyncio.create_task(cache.look_up(question("What is osmosis?"), TARGET)) for _ in range(5)]
        await asyncio.sleep(0.05)
        assert not any(task.done() for task in others)
        await first.ticket.commit("A flow.", FINISHED)

        assert all(isinstance(found, Hit) for found in await asyncio.gather(*others))


async def test_when_the_first_gives_up_another_goes_on(path: Path) -> None:
    async with opened(path) as cache:
        first = await cache.look_up(question("What is osmosis?"), TARGET)
        assert isinstance(first, Miss)
        others = [asyncio.create_task(cache.look_up(question("What is osmosis?"), TARGET)) for _ in range(2)]
        await asyncio.sleep(0.02)
        first.ticket.abandon()
        done, waiting = await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        second = done.pop().result()
        assert isinstance(second, Miss)
        await second.ticket.commit("A flow.", FINISHED)

        assert isinstance(await waiting.pop(), Hit)


async def test_one_who_waits_may_leave_and_a_leader_that_never_ends_is_not_waited_for(path: Path) -> None:
    async with opened(path, patience_s=0.05) as cache:
        first = await cache.look_up(question("What is osmosis?"), TARGET)
        assert isinstance(first, Miss)
        leaving = asyncio.create_task(cache.look_up(question("What is osmosis?"), TARGET))
        await asyncio.sleep(0.01)
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        impatient = await cache.look_up(question("What is osmosis?"), TARGET)
        assert isinstance(impatient, Miss)
        impatient.ticket.abandon()  # it did not lead: the first still does
        await first.ticket.commit("A flow.", FINISHED)

        assert await hit(cache, "What is osmosis?")


async def test_two_programs_see_each_others_answers_and_rejects(path: Path) -> None:
    async with opened(path) as one, opened(path) as other:
        await keep(one, "What is diffusion?")
        await keep(other, "What else?")
        await keep(one)
        found = await hit(other, "Define osmosis.")
        await one.reject(found.label.entry)

        assert await miss(other, question("Define osmosis."))


async def test_a_file_that_cannot_be_used_costs_no_answer(path: Path) -> None:
    path.write_bytes(b"garbage" * 1000)
    async with opened(path) as cache:
        assert "cannot be used" in await cache.warm()
        found = await cache.look_up(question("What is osmosis?"), TARGET)
        assert isinstance(found, Miss)
        assert "cannot be used" in found.reason
        assert "cannot be used" in await found.ticket.commit("A flow.", FINISHED)
        assert "cannot be used" in await cache.reject(1)

    assert path.read_bytes() == b"garbage" * 1000


async def test_a_locked_file_costs_no_answer(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """requests-cache#781."""
    monkeypatch.setattr("router.cache.schema.BUSY_TIMEOUT_S", 0.05)
    async with opened(path) as cache:
        await keep(cache)
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert await hit(cache, "What is osmosis?")
        found = await cache.look_up(question("What is diffusion?"), TARGET)
        assert isinstance(found, Miss)
        assert "locked" in await found.ticket.commit("A spread.", FINISHED)
        other.execute("ROLLBACK")
        other.close()


async def test_text_too_long_to_be_compared_whole_is_not_compared(path: Path) -> None:
    """Two long texts that differ behind what the embedder reads must not meet."""
    long = "What about this? " + "very " * 120
    async with opened(path) as cache:
        await keep(cache, long + "A")

        assert "too long" in await miss(cache, question(long + "B"))


async def test_a_vector_that_was_tampered_with_matches_nothing(path: Path) -> None:
    async with opened(path) as cache:
        await keep(cache)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE entry SET vector = zeroblob(256)")
    db.close()
    async with opened(path) as cache:
        assert await miss(cache, question("Define osmosis."))


async def test_nothing_of_it_runs_in_the_event_loop(path: Path) -> None:
    threads: set[str] = set()

    class Watching(FakeEmbedder):
        def embed(self, text: str) -> Vector | None:
            threads.add(threading.current_thread().name)
            return super().embed(text)

    async with opened(path, embedder=Watching(SAME)) as cache:
        await keep(cache)

    assert threads
    assert all(name.startswith("cache") for name in threads)


async def test_hits_and_misses_are_counted(path: Path) -> None:
    async with opened(path) as cache:
        await keep(cache)
        await hit(cache, "What is osmosis?")
        await hit(cache, "Define osmosis.")
        stats = await cache.stats()

    assert (stats.exact_hits, stats.semantic_hits, stats.misses) == (1, 1, 1)
    assert stats.avoided_usd == pytest.approx(0.004)
