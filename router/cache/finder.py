"""Finds the answer to a question in the store: the same text first, then a paraphrase.

Owns the order of the two tiers, the matrices of the partitions in use and how they are kept
in step with what other programs write. Blocks; to be used from one thread at a time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from router.cache.embed import Embedder, Vector
from router.cache.guard import Guard
from router.cache.hit import Nearest
from router.cache.key import Key
from router.cache.serving import Calibration, promise_for, rules_id
from router.cache.store import Entry, Store
from router.cache.threshold import Promise
from router.cache.vectors import Vectors
from router.errors import EmbedderUnavailable

CANDIDATES = 5  # beyond the nearest few, what the guards refuse is refused for the same reason
MOST_PARTITIONS = 16  # one for each profile and model in use, normally one


@dataclass(frozen=True, slots=True)
class Question:
    """``may_paraphrase`` "" where a paraphrase may answer it, else why not."""

    key: Key
    may_paraphrase: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """``entry`` None: nothing, for ``reason``. ``vector`` is kept for storing the answer."""

    entry: Entry | None
    similarity: float = 1.0
    threshold: float = 1.0
    is_exact: bool = False
    passed: tuple[str, ...] = ()
    reason: str = ""
    nearest: Nearest | None = None
    vector: Vector | None = None


@dataclass(slots=True)
class Finder:
    """``verified_by`` names what is asked about a paraphrase after this, "" where nothing is."""

    store: Store
    embedder: Embedder
    guard: Guard
    calibration: Callable[[], Calibration]
    verified_by: str = ""
    _partitions: OrderedDict[bytes, Vectors] = field(default_factory=OrderedDict)
    _seen_change: int = -1
    _promise: Promise | None = None

    @property
    def rules(self) -> str:
        return rules_id(self.embedder.id, self._comparing)

    @property
    def _comparing(self) -> str:
        return " / ".join(filter(None, (self.guard.version, self.verified_by)))

    def promise(self) -> Promise:
        """Computed when first asked for and after every reject, here or by another program."""
        self._notice_others()
        if self._promise is None:
            own = self.store.verdicts(self.rules)
            self._promise = promise_for(self.calibration(), self.embedder.id, self._comparing, own)
        return self._promise

    def find(self, question: Question) -> Found:
        entry = self.store.exact(question.key)
        if entry:
            return Found(entry, is_exact=True)
        if question.may_paraphrase:
            return Found(None, reason=question.may_paraphrase)
        try:
            vector = self.embedder.embed(question.key.text)
        except EmbedderUnavailable as error:
            return Found(None, reason=error.message)
        if vector is None:
            return Found(None, reason="the question is too long to be compared")
        return self._paraphrase(question.key, vector)

    def _paraphrase(self, key: Key, vector: Vector) -> Found:
        promise = self.promise()
        if promise.threshold is None:
            return Found(None, reason=f"paraphrases are not served: {promise.why_off}", vector=vector)
        nearest: Nearest | None = None
        vectors = self._vectors(key.partition)
        for entry_id, similarity in vectors.nearest(vector, CANDIDATES, promise.threshold):
            entry = self.store.alive(entry_id)
            if entry is None:
                vectors.drop(entry_id)
                continue
            of = min(similarity, 1.0), promise.threshold
            refused = self.guard.refuses(key.text, entry.question)
            if not refused:
                return Found(entry, *of, passed=self.guard.names, vector=vector)
            nearest = nearest or Nearest(entry_id, *of, refused)
        reason = f"a similar one differs: {nearest.refused_by}" if nearest else "nothing similar was asked"
        return Found(None, reason=reason, nearest=nearest, vector=vector)

    def _vectors(self, partition: bytes) -> Vectors:
        self._notice_others()
        vectors = self._partitions.get(partition)
        if vectors is None or len(vectors) == 0:
            vectors = Vectors(self.embedder.dimension)
            vectors.extend(*self.store.vectors(partition, self.embedder.id))
            self._partitions[partition] = vectors
        self._partitions.move_to_end(partition)
        while len(self._partitions) > MOST_PARTITIONS:
            self._partitions.popitem(last=False)
        return vectors

    def _notice_others(self) -> None:
        """Takes in what other programs added; where they removed something, reads all again."""
        change = self.store.changes_of_others()
        if change == self._seen_change:
            return
        self._seen_change = change
        self._promise = None
        for partition, vectors in list(self._partitions.items()):
            vectors.extend(*self.store.vectors(partition, self.embedder.id, after=vectors.last_id))
            if len(vectors) != self.store.count(partition):
                del self._partitions[partition]

    def warm(self) -> str:
        """Loads embedder and guards; what stands against paraphrases, "" where nothing does."""
        self.guard.refuses("Is it ready?", "Is it ready yet?")
        try:
            self.embedder.embed("Is it ready?")
        except EmbedderUnavailable as error:
            return str(error)
        return ""

    def added(self, partition: bytes) -> None:
        """An answer was kept here. What it replaced or drove out is found out when it comes up."""
        vectors = self._partitions.get(partition)
        if vectors is not None:
            vectors.extend(*self.store.vectors(partition, self.embedder.id, after=vectors.last_id))

    def judged(self) -> None:
        """A verdict was recorded here: the promise is computed again."""
        self._promise = None
