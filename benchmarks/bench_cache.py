"""The cache on public questions: hit rate and precision of hits by policy, pairs, and latencies.

Streams: Banking77 (test), CLINC150 (test, out of scope included) and the 999 paraphrase pairs. What
ships was calibrated on other parts of the first two and on nothing of the third. In the third, two
pairs often say the same; --audit is a list of such texts, read one by one, that have one answer.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.cache_streams import (
    Hit,
    Policy,
    Question,
    banking77,
    clinc150,
    ideal_hit_rate,
    paraphrases,
    run,
    shuffled,
    vectors_of,
)
from benchmarks.record import Record, arguments, recording
from router.cache.answers import AnswerCache
from router.cache.embed import MiniLM, Vector
from router.cache.guard.compare import WordGuard
from router.cache.hit import Miss
from router.cache.key import CacheTarget
from router.cache.perishable import perishable
from router.cache.serving import promise_for, shipped_calibration
from router.cache.vectors import Vectors
from router.request import ChatRequest, Finished, Message, Usage

PAIRS = Path(__file__).resolve().parent.parent / "tests" / "router" / "cache" / "pairs"
PUBLISHED = """Published, on a stream of 4,218 questions, ideal hit rate .478 (hit rate / precision of hits):
  static .80 .344/.926, .90 .174/.943; .80 + guards .268/.953; per-entry vCache .008/.80;
  pooled online logistic .170/.915; conformal + guards .358/.971"""
ENTRIES = 100_000


def policies(threshold: float) -> dict[str, tuple[Policy, float, bool]]:
    """Name -> whether a candidate is served, the lowest similarity, whether perishable questions miss."""
    guard = WordGuard()

    def guarded(asked: str, stored: str, _: float) -> bool:
        return not guard.refuses(asked, stored)

    def anything(asked: str, stored: str, _: float) -> bool:
        return True

    return {
        "exact": (anything, 2.0, False),
        "static .95": (anything, 0.95, False),
        "static .90": (anything, 0.90, False),
        "static .80": (anything, 0.80, False),
        "guards, .80": (guarded, 0.80, False),
        "bound + guards": (guarded, threshold, False),
        "as it ships": (guarded, threshold, True),
    }


def measure_stream(
    record: Record, name: str, stream: list[Question], vectors: dict[str, Vector], threshold: float
) -> dict[str, list[Hit]]:
    """Rows of hit rate and precision for every policy."""
    record.row(f"{name}: ideal hit rate", ideal_hit_rate(stream), note=f"{len(stream)} questions")
    found: dict[str, list[Hit]] = {}
    for policy, (may_serve, lowest, only_lasting) in policies(threshold).items():
        hits = run(
            stream,
            vectors,
            may_serve,
            lowest=lowest,
            is_eligible=lambda text, only=only_lasting: not (only and perishable(text, "en")),  # type: ignore[misc]  # a default holds the loop's value
        )
        wrong = sum(not hit.is_right for hit in hits)
        precision = 1 - wrong / len(hits) if hits else 1.0
        record.row(f"{name}: {policy}: hit rate", len(hits) / len(stream))
        record.row(f"{name}: {policy}: precision", precision, note=f"{wrong} wrong of {len(hits)}")
        found[policy] = hits
    return found


def audited(file: Path) -> list[tuple[str, str]]:
    """Pairs of texts in a file of lines "yes<TAB>one<TAB>other": those that have one answer."""
    rows = [line.split("\t") for line in file.read_text(encoding="utf-8").splitlines()]
    return [(row[1], row[2]) for row in rows if row[0] == "yes"]


def measure_pairs(record: Record, embedder: MiniLM, threshold: float) -> None:
    guard = WordGuard()
    for name in ("lookalikes", "lookalikes-later", "paraphrases", "paraphrases-later"):
        lines = (PAIRS / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        pairs = [line.split("\t")[-2:] for line in lines if not line.startswith("#")]
        served = 0
        for one, other in pairs:
            vectors = embedder.embed(one), embedder.embed(other)
            assert vectors[0] is not None and vectors[1] is not None  # noqa: PT018  # no pair is long
            similar = float(vectors[0] @ vectors[1]) >= threshold
            served += similar and not guard.refuses(one, other)
        goal = "= 0" if name.startswith("look") else "≥ 0.6"
        value = served if name.startswith("look") else served / len(pairs)
        record.row(f"{name}: served", value, goal=goal, note=f"{served} of {len(pairs)}")


def measure_latency(record: Record, embedder: MiniLM) -> None:
    questions = [f"What is the {n}th thing to know about the history of bridges?" for n in range(200)]
    embedder.embed(questions[0])
    took = [_ms(lambda text=text: embedder.embed(text)) for text in questions]  # type: ignore[misc]  # likewise
    record.row("embedding, median", statistics.median(took), "ms", "≤ 8")
    rows = np.random.default_rng(1).standard_normal((ENTRIES, embedder.dimension)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    vectors = Vectors(embedder.dimension)
    vectors.extend(list(range(1, ENTRIES + 1)), [row.tobytes() for row in rows])
    took = [_ms(lambda row=row: vectors.nearest(row, 5, 0.8)) for row in rows[:: ENTRIES // 300]]  # type: ignore[misc]  # likewise
    record.row(f"look-up in {ENTRIES:,}, p99", float(np.percentile(took, 99)), "ms", "≤ 10")
    record.row(f"look-up in {ENTRIES:,}, median", statistics.median(took), "ms")


def _ms(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - began)


async def measure_front(record: Record, embedder: MiniLM) -> None:
    """A whole look-up, store, threads and event loop included."""
    target = CacheTarget("me", "acme", "large")
    with TemporaryDirectory() as folder:
        cache = AnswerCache(
            Path(folder) / "answers.db", embedder, WordGuard(), has_personal_data=lambda text: False
        )
        await cache.warm()
        for n in range(300):
            found = await cache.look_up(_request(f"What is entry {n} about?"), target)
            if isinstance(found, Miss):
                await found.ticket.commit(f"It is about {n}.", Finished("stop", Usage(9, 9)))
        for name, text, goal in (
            ("exact hit, median", "What is entry 7 about?", "≤ 1"),
            ("paraphrase or miss, median", "Please, what would entry 7 be about?", ""),
        ):
            took = []
            for _ in range(100):
                began = time.perf_counter()
                found = await cache.look_up(_request(text), target)
                took.append(1000 * (time.perf_counter() - began))
                if isinstance(found, Miss):
                    found.ticket.abandon()
                await asyncio.sleep(0.005)
            record.row(name, statistics.median(took), "ms", goal)
        await cache.close()


def _request(text: str) -> ChatRequest:
    return ChatRequest((Message("user", text),))


def streams(args: Namespace) -> dict[str, list[Question]]:
    merge = audited(args.audit) if args.audit else []
    found = {
        "Banking77": banking77(args.data, "test"),
        "CLINC150": clinc150(args.data, ("test", "oos_test")),
        "paraphrases": paraphrases(args.data),
    }
    if merge:
        found["paraphrases, audited"] = paraphrases(args.data, merge)
    return {name: shuffled(questions)[: args.questions] for name, questions in found.items()}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder of the three data sets")
    parser.add_argument("--audit", type=Path, metavar="FILE", help="paraphrases that have one answer")
    parser.add_argument("--questions", type=int, default=2000, metavar="N", help="of each stream")
    parser.add_argument("--wrong", action="store_true", help="also print the wrong hits of the bound")
    args = parser.parse_args()
    embedder = MiniLM()
    threshold = promise_for(shipped_calibration(), MiniLM.id, WordGuard.version, ()).threshold
    with recording("cache", args) as record:
        record.row("threshold of the bound at 2 %", threshold or 2.0)
        measure_latency(record, embedder)
        asyncio.run(measure_front(record, embedder))
        measure_pairs(record, embedder, threshold or 2.0)
        for name, stream in streams(args).items() if args.data else ():
            vectors = vectors_of(stream, embedder)
            hits = measure_stream(record, name, stream, vectors, threshold or 2.0)
            for hit in hits["as it ships"] if args.wrong else ():
                if not hit.is_right:
                    print(f"{name}\t{hit.similarity:.3f}\t{hit.asked.text}\t{hit.stored.text}")
    print(PUBLISHED)


if __name__ == "__main__":
    main()
