"""The cache as a request meets it: look up, then either replay, or ask and keep.

Owns the one thread in which all of it runs, so that the event loop never waits for a disk, a
matrix or the embedder, and that nothing which goes wrong here ever costs an answer: then it
is a miss that says why. Knows nothing of policy, of screens or of how a cloud is called.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from time import time
from typing import TypeVar

from router.cache.eligible import HasPersonalData, why_not_asked, why_not_kept
from router.cache.embed import Embedder, Vector
from router.cache.finder import Finder, Found, Question
from router.cache.flights import PATIENCE_S, Flights
from router.cache.guard import Guard
from router.cache.hit import Hit, Miss, Nearest
from router.cache.key import CacheTarget, key_of
from router.cache.language import language_of
from router.cache.lifetime import lifetime_of
from router.cache.serving import Calibration, shipped_calibration
from router.cache.store import MOST_BYTES, Entry, NewEntry, Stats, Store
from router.cache.threshold import Promise
from router.cache.verify import Verification
from router.decision import CacheLabel
from router.errors import CacheUnavailable
from router.request import ChatRequest, Finished

RETRY_S = 30.0  # after a store could not be opened, it is left alone for so long
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as the cache sees it: where it belongs, or ``why_not`` it has no place here."""

    target: CacheTarget
    question: Question | None = None
    why_not: str = ""


class AnswerCache:
    """For one event loop. Guarantees, to whoever calls :meth:`look_up`:

    - a hit's question is, after normalising white space, the same text; or a self-contained
      first question in English that every guard takes for a paraphrase and whose similarity
      keeps the promise on the share of wrong hits;
    - everything else that shapes an answer was equal, profile and model included;
    - requests with tools, personal data or perishable answers neither read nor write here;
    - only answers given to :meth:`Ticket.commit` that ended by themselves are ever replayed.
    """

    def __init__(
        self,
        path: Path,
        embedder: Embedder,
        guard: Guard,
        *,
        has_personal_data: HasPersonalData,
        calibration: Callable[[], Calibration] = shipped_calibration,
        verification: Verification | None = None,
        most_bytes: int = MOST_BYTES,
        now: Callable[[], float] = time,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Opens nothing yet. With ``verification`` a model is asked too before a paraphrase is served;
        the calibration must then have been made with it.
        """
        self._path = path
        self._embedder = embedder
        self._guard = guard
        self._has_personal_data = has_personal_data
        self._calibration = calibration
        self._verification = verification
        self._most_bytes = most_bytes
        self._now = now
        self._patience_s = patience_s
        self._flights = Flights()
        self._thread = ThreadPoolExecutor(1, "cache")
        self._finder: Finder | None = None
        self._closed = False
        self._trouble: tuple[float, CacheUnavailable] | None = None

    async def warm(self) -> str:
        """Load what the first look-up would wait for; why a tier will not serve, "" where both do."""
        try:
            return await self._aside(self._warm)
        except CacheUnavailable as error:
            return str(error)

    async def look_up(
        self,
        request: ChatRequest,
        target: CacheTarget,
        *,
        fresh: bool = False,
        attachments: Sequence[str] = (),
    ) -> Hit | Miss:
        """The answer given before, or a ticket to keep the one that comes. Never raises a RouterError.

        ``fresh``: the user wants a new answer. Where the same question is being answered at
        this moment, waits for that answer.
        """
        asked = await self._aside(lambda: self._asked(request, target, fresh, attachments))
        if asked.question is None:
            return Miss(asked.why_not, NoTicket(asked.why_not))
        exact = asked.question.key.exact
        leads = await self._flights.lead(exact, self._patience_s)
        try:
            found = await self._verified(asked.question, await self._aside(lambda: self._find(asked)))
        except BaseException:
            self._end(exact, leads)
            raise
        if found.entry:
            self._end(exact, leads)
            return self._hit(found, found.entry)
        ticket = _Ticket(self, asked, found.vector, leads)
        return Miss(found.reason, ticket, found.nearest)

    async def reject(self, entry: int) -> str:
        """A hit was wrong: its answer is removed and counts against the promise. Why not, or ""."""
        try:
            gone = await self._aside(lambda: self._reject(entry))
        except CacheUnavailable as error:
            return str(error)
        return "" if gone else "it had gone already"

    async def promise(self) -> Promise:
        """What is promised at this moment. Raises CacheUnavailable."""
        return await self._aside(lambda: self._opened().promise())

    async def stats(self) -> Stats:
        """What is kept and what it was good for. Raises CacheUnavailable."""
        return await self._aside(lambda: self._opened().store.stats())

    async def close(self) -> None:
        """Waits for what is being written."""
        await self._aside(self._close)
        self._thread.shutdown(wait=False)

    # -- in the loop

    def _end(self, exact: bytes, leads: bool) -> None:
        if leads:
            self._flights.end(exact)

    async def _verified(self, question: Question, found: Found) -> Found:
        """A paraphrase that the model refuses is none. The nearest only: each judgement takes time."""
        verification, entry = self._verification, found.entry
        if verification is None or entry is None or found.is_exact:
            return found
        refused = await verification.refuses(question.key.text, entry.question)
        if not refused:
            return replace(found, passed=(*found.passed, verification.name))
        self._later(self._count_miss)
        nearest = Nearest(entry.id, found.similarity, found.threshold, refused)
        return Found(None, reason=f"a similar one was found: {refused}", nearest=nearest, vector=found.vector)

    def _hit(self, found: Found, entry: Entry) -> Hit:
        label = CacheLabel(
            "exact" if found.is_exact else "semantic",
            entry.id,
            entry.question,
            found.similarity,
            found.threshold,
            max(0.0, self._now() - entry.created_at),
        )
        self._later(lambda: self._note(found, entry))  # after the answer: writing it down can wait
        return Hit(label, entry.answer, entry.model, entry.cost_usd, found.passed)

    def _later(self, work: Callable[[], None]) -> None:
        if not self._closed:  # while a model was asked it may have been
            self._thread.submit(work)

    async def _aside(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- in the thread

    def _asked(
        self, request: ChatRequest, target: CacheTarget, fresh: bool, attachments: Sequence[str]
    ) -> Asked:
        last = request.messages[-1].content if request.messages else ""
        language = language_of(last, self._guard.is_word)
        why_not = why_not_asked(
            request, language=language, fresh=fresh, has_personal_data=self._has_personal_data
        )
        if why_not:
            return Asked(target, why_not=why_not)
        key = key_of(
            request, target, language=language, embedder_id=self._embedder.id, attachments=attachments
        )
        return Asked(target, Question(key, _why_exact_only(request, language, attachments)))

    def _find(self, asked: Asked) -> Found:
        assert asked.question is not None
        try:
            found = self._opened().find(asked.question)
            if found.entry is None:
                self._thread.submit(self._count_miss)
            return found
        except CacheUnavailable as error:
            return Found(None, reason=str(error))

    def _keep(self, asked: Asked, vector: Vector | None, answer: str, finished: Finished) -> str:
        question = asked.question
        assert question is not None
        why_not = why_not_kept(answer, finished, self._has_personal_data)
        if why_not:
            return why_not
        lifetime = lifetime_of(question.key.text)
        new = NewEntry(
            key=question.key,
            profile=asked.target.profile,
            provider=asked.target.provider,
            model=finished.model or asked.target.model,
            question=question.key.text,
            answer=answer,
            kind=lifetime.kind,
            lifetime_s=lifetime.seconds,
            prompt_tokens=finished.usage.prompt_tokens,
            completion_tokens=finished.usage.completion_tokens,
            cost_usd=finished.cost_usd,
            embedder=self._embedder.id,
            vector=vector,
        )
        try:
            finder = self._opened()
            if finder.store.add(new) is None:
                return "the answer is larger than the cache"
            finder.added(question.key.partition)
        except CacheUnavailable as error:
            return str(error)
        return ""

    def _note(self, found: Found, entry: Entry) -> None:
        try:
            finder = self._opened()
            if found.is_exact:
                finder.store.used(entry)
            else:
                finder.store.used(entry, found.similarity, found.threshold, finder.rules)
                finder.judged()
        except CacheUnavailable as error:
            _log(error)

    def _count_miss(self) -> None:
        try:
            self._opened().store.missed()
        except CacheUnavailable as error:
            _log(error)

    def _reject(self, entry: int) -> bool:
        finder = self._opened()
        gone = finder.store.reject(entry)
        finder.judged()
        return gone

    def _warm(self) -> str:
        finder = self._opened()
        promise = finder.promise()
        why_off = finder.warm()
        return why_off or (f"Paraphrases are not served: {promise.why_off}." if promise.why_off else "")

    def _opened(self) -> Finder:
        """Raises CacheUnavailable, and the same again for a while without trying."""
        if self._closed:
            raise CacheUnavailable("The cache was closed.")
        if self._finder is None:
            if self._trouble and 0 <= self._now() - self._trouble[0] < RETRY_S:
                raise self._trouble[1]
            try:
                store = Store(self._path, most_bytes=self._most_bytes, now=self._now)
            except CacheUnavailable as error:
                self._trouble = (self._now(), error)
                raise
            version = self._verification.version if self._verification else ""
            self._finder = Finder(store, self._embedder, self._guard, self._calibration, version)
        return self._finder

    def _close(self) -> None:
        self._closed = True
        if self._finder:
            self._finder.store.close()
            self._finder = None


def _why_exact_only(request: ChatRequest, language: str, attachments: Sequence[str]) -> str:
    if any(message.role != "system" for message in request.messages[:-1]):
        return "it goes on with a conversation, so only the very same one would do"
    if attachments:
        return "a file came with it"
    if request.response_format:
        return "its form is prescribed"
    return "" if language == "en" else "paraphrases are recognised in English only"


def _log(error: CacheUnavailable) -> None:
    """It cost nobody an answer."""
    logging.getLogger(__name__).warning("A hit was not written down: %s", error.message)


class NoTicket:
    """For a request that has no place in the cache: keeps nothing."""

    def __init__(self, why_not: str) -> None:
        self._why_not = why_not

    async def commit(self, answer: str, finished: Finished) -> str:
        return self._why_not

    def abandon(self) -> None:
        pass


class _Ticket:
    """Keeps one answer; those who wait for the same question go on in either case."""

    def __init__(self, cache: AnswerCache, asked: Asked, vector: Vector | None, leads: bool) -> None:
        self._cache = cache
        self._asked = asked
        self._vector = vector
        self._leads = leads

    async def commit(self, answer: str, finished: Finished) -> str:
        try:
            return await self._cache._aside(
                lambda: self._cache._keep(self._asked, self._vector, answer, finished)
            )
        finally:
            self.abandon()

    def abandon(self) -> None:
        leads, self._leads = self._leads, False
        if self._asked.question:
            self._cache._end(self._asked.question.key.exact, leads)
