"""Whether paraphrases are served, from which similarity on, and why not where they are not.

Owns the calibration that ships and how the user's verdicts join it. Rules are the embedder,
the guards and this file together: verdicts under other rules say nothing about these.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from router.cache.threshold import Promise, Sample, contradicts, recalibrated

CALIBRATION = "calibration.json"


@dataclass(frozen=True, slots=True)
class Calibration:
    """Possible hits on named public data; what they rest on is in the other fields."""

    data: str
    licence: str
    embedder: str
    guards: str
    samples: tuple[Sample, ...]


@cache
def shipped_calibration() -> Calibration:
    """What came with the program; made by benchmarks/calibrate_cache.py."""
    found = json.loads((files("router.cache") / CALIBRATION).read_text(encoding="utf-8"))
    samples = tuple(Sample(similarity, bool(correct)) for similarity, correct in found["samples"])
    return Calibration(found["data"], found["licence"], found["embedder"], found["guards"], samples)


def rules_id(embedder: str, guards: str) -> str:
    """Names what decided over a hit; another embedder or guard is another set of rules."""
    return f"{embedder} / {guards}"


def promise_for(calibration: Calibration, embedder: str, guards: str, own: Sequence[Sample]) -> Promise:
    """What may be promised now, by the calibration and the verdicts ``own`` under the same rules."""
    of_same_rules = calibration.embedder == embedder and calibration.guards == guards
    found = recalibrated(calibration.samples if of_same_rules else (), own)
    if not of_same_rules and found.threshold is None:
        why = "what came with the program was measured with another embedder or other guards"
        found = replace(found, why_off=f"{why}; {found.why_off}")
    wrong = sum(not sample.correct for sample in own)
    if contradicts(wrong, len(own), found.epsilon):
        why = f"you rejected {wrong} of {len(own)} such answers, which contradicts the promise"
        return replace(found, threshold=None, why_off=why)
    return found
