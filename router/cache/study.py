"""2,000 questions of 40 intents through every tier: hits, wrong answers, and what each tier costs.

Four sentence patterns times ten cities, asked with Zipf popularity; one pattern has many
paraphrases. The right answer of each is known by construction: the line that serves a place
in a city. A validator knows which lines a city has, so it finds answers that are not legal
there, and passes a legal one that belongs to another city.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import product
from statistics import fmean

import numpy as np

from router.cache.embed import Embedder, Vector
from router.cache.guard import Guard
from router.simcloud.studies.table import Table, lines

QUESTIONS = 2000
ZIPF = 1.0  # of the intents' popularity: Zipf's law
CITIES = ("Bonn", "Mainz", "Ulm", "Trier", "Kassel", "Hagen", "Siegen", "Worms", "Fulda", "Celle")
# Long questions in which a city is one word of many: that is where a similarity confuses two of them.
PATTERNS = (
    "Which of the numbered bus lines should a family with small children take from the harbour to the zoo in "
    "{city} on a Sunday morning?",
    "Which of the numbered metro lines should a student with a bicycle take from the university to the old "
    "town hall in {city} in the afternoon?",
    "Which of the numbered night lines should a guest of the opera take from the theatre to the youth hostel "
    "in {city} after midnight?",
)
# The fourth pattern: one question in 240 wordings.
OPENINGS = (
    "Which of the numbered tram lines",
    "Tell me which of the numbered tram lines",
    "Which numbered tram line",
)
VISITORS = ("a visitor", "a traveller", "a tourist", "someone")
LOADS = ("with heavy suitcases", "with heavy luggage", "carrying heavy suitcases", "with a lot of luggage")
ENDS = (
    "from the main station to the airport terminal in {city} late in the evening",
    "from the central station to the airport terminal in {city} late in the evening",
    "to the airport terminal from the main station in {city} late in the evening",
    "from the main station to the airport terminal of {city} late at night",
    "late in the evening from the main station to the airport terminal in {city}",
)
THRESHOLDS = (0.99, 0.95, 0.90)
PUBLISHED = (
    "exact: 78 % hits, none wrong; 0.99: 96 % hits, none wrong; 0.95: 97 % hits, 5.7 % wrong; "
    "0.90: barely more hits, 30 % wrong.",
    "a validator of legal answers caught 15 and took wrong answers at 0.90 from 30 % to 19 %.",
    "paraphrases of one intent: mean similarity 0.93; the most similar pair with different answers: 0.985.",
)


@dataclass(frozen=True, slots=True)
class Asked:
    """``intent`` is pattern and city."""

    text: str
    intent: tuple[int, int]


@dataclass(slots=True)
class Outcome:
    """Of one policy. Times are of one question, in milliseconds."""

    hits: int = 0
    wrong: int = 0
    caught: int = 0
    embed_ms: list[float] = field(default_factory=list)
    look_up_ms: list[float] = field(default_factory=list)


def answer(intent: tuple[int, int]) -> int:
    """The number of the line; a large city has more of them."""
    pattern, city = intent
    return 1 + (pattern * 7 + city * 3) % lines_of(city)


def lines_of(city: int) -> int:
    return 5 + 2 * city


def questions(seed: int, count: int = QUESTIONS) -> list[Asked]:
    random = np.random.default_rng(seed)
    intents = list(product(range(len(PATTERNS) + 1), range(len(CITIES))))
    random.shuffle(intents)
    weight = 1 / np.arange(1, len(intents) + 1) ** ZIPF
    drawn = random.choice(len(intents), count, p=weight / weight.sum())
    found = []
    for pattern, city in (intents[index] for index in drawn):
        wordings = _wordings(int(pattern))
        text = wordings[int(random.integers(len(wordings)))].format(city=CITIES[int(city)])
        found.append(Asked(text, (int(pattern), int(city))))
    return found


def _wordings(pattern: int) -> tuple[str, ...]:
    if pattern < len(PATTERNS):
        return (PATTERNS[pattern],)
    parts = product(OPENINGS, VISITORS, LOADS, ENDS)
    return tuple(f"{opening} should {who} {load} take {end}?" for opening, who, load, end in parts)


def table(embedder: Embedder, guard: Guard, promised: float | None, seed: int = 0) -> Table:
    """``promised`` is the threshold that the bound allows; None leaves that row out."""
    stream = questions(seed)
    vectors, embed_ms = _embedded(stream, embedder)
    rows: list[dict[str, float | str]] = [_row("exact", 1.0, "off", _play(stream, {}, {}, None))]
    for threshold, validate in product(THRESHOLDS, (False, True)):
        outcome = _play(stream, vectors, embed_ms, threshold, validate=validate)
        rows.append(_row("similarity", threshold, "on" if validate else "off", outcome))
    if promised is not None:
        outcome = _play(stream, vectors, embed_ms, promised, guard=guard)
        rows.append(_row("bound and guards", promised, "off", outcome))
    same, other = _similarities(stream, vectors)
    return Table(
        "A semantic cache on 2,000 questions of 40 intents",
        "threshold",
        "wrong answers, % of all questions",
        lines(
            [row for row in rows if row["policy"] == "similarity"], "validator", "threshold", "wrong_percent"
        ),
        (
            f"paraphrases of one intent: mean similarity {same:.3f}; the most similar pair with "
            f"different answers: {other:.3f}.",
            "here, repeats are more frequent than in the published workload, which is not known in full, and "
            "at 0.90 more answers are wrong: these questions are longer.",
            "guards refuse what differs in a word that carries the question; the similarity does not.",
        ),
        PUBLISHED,
        tuple(rows),
    )


def _embedded(stream: list[Asked], embedder: Embedder) -> tuple[dict[str, Vector], dict[str, float]]:
    vectors: dict[str, Vector] = {}
    took_ms: dict[str, float] = {}
    embedder.embed(stream[0].text)  # loading is no part of it
    for asked in stream:
        if asked.text not in vectors:
            began = time.perf_counter()
            vector = embedder.embed(asked.text)
            took_ms[asked.text] = 1000 * (time.perf_counter() - began)
            assert vector is not None, "these questions are short"
            vectors[asked.text] = vector
    return vectors, took_ms


def _play(
    stream: list[Asked],
    vectors: dict[str, Vector],
    embed_ms: dict[str, float],
    threshold: float | None,
    *,
    validate: bool = False,
    guard: Guard | None = None,
) -> Outcome:
    outcome = Outcome()
    exact: dict[str, Asked] = {}
    kept: list[Asked] = []
    matrix = np.zeros((len(stream), len(next(iter(vectors.values()), [0]))), dtype=np.float32)
    for asked in stream:
        began = time.perf_counter()
        stored = exact.get(asked.text)
        if stored is None and threshold is not None:
            stored = _nearest(asked, vectors, matrix, kept, threshold, guard)
            outcome.embed_ms.append(embed_ms[asked.text])
        outcome.look_up_ms.append(1000 * (time.perf_counter() - began))
        if stored and validate and answer(stored.intent) > lines_of(asked.intent[1]):
            outcome.caught += 1
            stored = None
        if stored:
            outcome.hits += 1
            outcome.wrong += answer(stored.intent) != answer(asked.intent)
            continue
        exact[asked.text] = asked
        if threshold is not None:
            matrix[len(kept)] = vectors[asked.text]
            kept.append(asked)
    return outcome


def _nearest(
    asked: Asked,
    vectors: dict[str, Vector],
    matrix: Vector,
    kept: list[Asked],
    threshold: float,
    guard: Guard | None,
) -> Asked | None:
    scores = matrix[: len(kept)] @ vectors[asked.text]
    for row in (int(each) for each in np.argsort(-scores)[:5]):
        if scores[row] < threshold:
            return None
        if guard is None or not guard.refuses(asked.text, kept[row].text):
            return kept[row]
    return None


def _row(policy: str, threshold: float, validator: str, outcome: Outcome) -> dict[str, float | str]:
    return {
        "policy": policy,
        "threshold": threshold,
        "validator": validator,
        "hits_percent": 100 * outcome.hits / QUESTIONS,
        "wrong": outcome.wrong,
        "wrong_percent": 100 * outcome.wrong / QUESTIONS,
        "caught": outcome.caught,
        "embed_ms": fmean(outcome.embed_ms or [0.0]),
        "look_up_ms": fmean(outcome.look_up_ms),
    }


def _similarities(stream: list[Asked], vectors: dict[str, Vector]) -> tuple[float, float]:
    """The mean within an intent, and the largest between two that have different answers."""
    of = {asked.text: asked.intent for asked in stream}
    texts = list(of)
    matrix = np.array([vectors[text] for text in texts])
    scores = matrix @ matrix.T
    intents = np.array([of[text][0] * len(CITIES) + of[text][1] for text in texts])
    answers = np.array([answer(of[text]) for text in texts])
    same = (intents[:, None] == intents[None, :]) & ~np.eye(len(texts), dtype=bool)
    different = answers[:, None] != answers[None, :]
    return float(scores[same].mean()), float(scores[different].max())
