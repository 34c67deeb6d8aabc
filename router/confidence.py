"""How likely a local answer is wrong, from the scores of its first tokens.

Owns the features and the shipped weights (confidence.json, by benchmarks/train_confidence.py). Pure. Does not
know when an answer is judged (router.gate) or where a calibration comes from (router.feedback).
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from router.decision import Confidence
from router.request import TokenScore

SURE = 0.8
"""The plain rule of cascades: a top token below this probability is doubtful."""
SHORT_TOKENS = 3  # up to so many an answer is a letter, a number, a word: judged by weights of their own
THRESHOLD = 0.5  # more likely wrong than right
FOREIGN_SHRINK = 0.5  # of the log-odds, for a model that the weights were not fitted to
LEAST_PROBABILITY = 1e-4

_HEDGE = re.compile(
    r"\b(?:i(?:'m| am) (?:not (?:sure|certain|able)|sorry|unable)|i (?:do not|don't|cannot|can't)|"
    r"as an ai|unfortunately|apologi[sz]e|it is (?:difficult|hard) to|not possible to)\b",
    re.IGNORECASE,
)

_WORD = re.compile(r"\w+")

FEATURES = (
    "mean log-probability",
    "least log-probability",
    "tenth of log-probabilities",
    "median log-probability",
    "share of doubtful tokens",
    "entropy of the first token",
    "mean entropy",
    "mean margin",
    "margin of the first token",
    "tokens",
    "hedges",
)


def measured(scores: Sequence[TokenScore], text: str) -> list[float]:
    """In the order of FEATURES, of at least one score."""
    logprobs = sorted(score.logprob for score in scores)
    count = len(scores)
    return [
        sum(logprobs) / count,
        logprobs[0],
        logprobs[int(0.1 * (count - 1))],
        logprobs[(count - 1) // 2],
        sum(lp < math.log(SURE) for lp in logprobs) / count,
        scores[0].entropy,
        sum(score.entropy for score in scores) / count,
        sum(score.margin for score in scores) / count,
        scores[0].margin,
        math.log(count),
        float(bool(_HEDGE.search(text))),
    ]


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic curve fitted to answers of ``model``, over features standardised by ``mean``, ``spread``."""

    model: str
    mean: tuple[float, ...]
    spread: tuple[float, ...]
    weights: tuple[float, ...]
    offset: float

    def log_odds(self, values: Sequence[float]) -> float:
        terms = zip(values, self.mean, self.spread, self.weights, strict=True)
        return self.offset + sum(w * (value - mean) / spread for value, mean, spread, w in terms)


@dataclass(frozen=True, slots=True)
class Calibration:
    """What a person's verdicts make of the log-odds: a line, from ``labels`` of them."""

    slope: float = 1.0
    offset: float = 0.0
    labels: int = 0


def judge(
    scores: Sequence[TokenScore],
    text: str,
    model: str,
    *,
    calibration: Calibration | None = None,
    threshold: float = THRESHOLD,
) -> Confidence:
    """Of the beginning ``text`` of an answer by ``model``. Forced tokens say nothing and are left out.

    With no scores nothing is known: the chance of being wrong is the average one of the model.
    """
    free = [score for score in scores if not score.forced]
    weights, own = shipped(model, short=len(free) <= SHORT_TOKENS)
    line = weights.log_odds(measured(free, text)) if free else weights.offset
    if calibration and calibration.labels:
        line = calibration.slope * line + calibration.offset
    elif not own:
        line *= FOREIGN_SHRINK
    rule = bool(free) and sum(math.exp(score.logprob) for score in free) / len(free) < SURE
    known = own or bool(calibration and calibration.labels)
    return Confidence(probability(line), threshold, len(free), rule, known)


def threshold_for(cost_usd: float | None, better_answer_usd: float) -> float:
    """The chance of being wrong from which the cloud is worth its price: chance x worth >= cost.

    Never below THRESHOLD: what is likelier right than wrong is shown, however cheap the cloud.
    Above 1: never.
    """
    if not cost_usd:
        return THRESHOLD
    return max(THRESHOLD, cost_usd / better_answer_usd if better_answer_usd > 0 else math.inf)


def agreement(answers: Sequence[str]) -> float:
    """Share of the commonest of some short answers, whatever case, marks and spaces."""
    if not answers:
        return 0.0
    return Counter(" ".join(_WORD.findall(a.casefold())) for a in answers).most_common(1)[0][1] / len(answers)


def with_agreement(judged: Confidence, share: float, votes: int) -> Confidence:
    """Beside the scores, what ``votes`` short answers drawn side by side say by agreeing to that ``share``.

    Both log-odds count alike: a weight of its own would have to be learned, and halves are enough to let one
    doubt what the other is sure of. Half a vote for either side keeps unanimity from being certainty.
    """
    agreed = share * votes
    odds = math.log((votes - agreed + 0.5) / (agreed + 0.5))
    return replace(judged, p_wrong=probability((log_odds(judged.p_wrong) + odds) / 2))


def probability(log_odds: float) -> float:
    return 1 / (1 + math.exp(-min(30.0, max(-30.0, log_odds))))


def log_odds(chance: float) -> float:
    kept = min(1 - LEAST_PROBABILITY, max(LEAST_PROBABILITY, chance))
    return math.log(kept / (1 - kept))


def shipped(model: str, *, short: bool) -> tuple[Weights, bool]:
    """The weights for answers of that length, and whether they were fitted to this model."""
    fitted = _table()["short" if short else "text"]
    own = next((weights for weights in fitted if weights.model.lower() in model.lower()), None)
    return own or fitted[0], own is not None


@cache
def _table() -> dict[str, tuple[Weights, ...]]:
    told = json.loads(files("router").joinpath("confidence.json").read_text(encoding="utf-8"))
    if told["features"] != list(FEATURES):
        raise ValueError("router/confidence.json does not fit router/confidence.py: train it again")
    return {kind: tuple(map(_weights, told[kind])) for kind in ("text", "short")}


def _weights(row: dict[str, Any]) -> Weights:
    return Weights(
        row["model"], tuple(row["mean"]), tuple(row["spread"]), tuple(row["weights"]), row["offset"]
    )
