"""One answer's story in plain words, from its entry in the ledger.

Pure. Owns the sentences; every surface that explains an answer tells them. What nobody knows is called
unknown and not left to look like nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from localchat.words import duration, money
from router.decision import Alternative, Estimate
from router.ledger import Entry
from router.privacy import counted

_HERE = {"local": "this machine", "cloud": "the cloud", "cache": "the cache"}
_ENDS = {
    "stop": "The answer came to its own end.",
    "length": "The answer was cut at the most tokens allowed.",
    "context": "The answer was cut where the context window was full.",
    "cancelled": "The answer was stopped.",
    "tool_calls": "The answer asks for tools.",
    "filtered": "The cloud withheld the rest of the answer.",
    "unknown": "The cloud did not say why the answer ended.",
}
_PRIVACY = {
    "asked": "a person saw them and sent them",
    "redacted": "placeholders were sent instead, and the values were put back into the answer",
    "kept local": "so it stayed on this machine",
    "refused": "so nothing was sent",
    "": "nothing was about to leave",
}


def story(entry: Entry) -> Iterator[str]:
    """Lines, in the order in which things happened."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.started_at))
    yield f"Answer {entry.id} of {when}, by {_who(entry)}."
    yield from _simulation(entry)
    yield from _decision(entry)
    yield from _privacy(entry)
    yield from _cache(entry)
    yield from _confidence(entry)
    for each in entry.hand_offs:
        kept = " What had been shown stays, marked as unfinished." if each.kept else ""
        yield f"Then {_HERE[each.source]} handed it to {_HERE[each.target]}: {_sentence(each.why)}{kept}"
    yield from _figures(entry)
    yield from _verdicts(entry)
    if entry.labels:
        yield f"Later it was called: {', '.join(label.name for label in entry.labels)}."


def _who(entry: Entry) -> str:
    by = entry.provider if entry.answered_by == "cloud" and entry.provider else _HERE[entry.answered_by]
    version = f" ({entry.version})" if entry.version else ""
    return f"{entry.model}{version}, {by}"


def _simulation(entry: Entry) -> Iterator[str]:
    if entry.is_simulated:
        gpu = entry.simulated.gpu if entry.simulated else "GPU"
        yield (
            f"SIMULATED: the cloud was a simulated {gpu}; its times are simulated and "
            "nothing left this machine."
        )


def _decision(entry: Entry) -> Iterator[str]:
    expected = f", expected {_estimated(entry.expected)}" if entry.expected else ""
    yield f"In mode {entry.mode} it was sent to {_HERE[entry.route]}{expected}."
    yield from (f"  Because: {_sentence(reason)}" for reason in entry.reasons)
    if entry.difficulty is not None:
        yield f"  Difficulty: the cloud's answer was thought better with a chance of {entry.difficulty:.0%}."
    yield from (f"  Not {_alternative(each)}" for each in entry.alternatives)


def _estimated(estimate: Estimate) -> str:
    first = f"first words after {duration(estimate.ttft_s)}"
    return f"{first}, all after {duration(estimate.total_s)}, for {money(estimate.cost_usd)}"


def _alternative(other: Alternative) -> str:
    place = _HERE[other.estimate.route]
    return f"{place} ({other.estimate.model}: {_estimated(other.estimate)}): {_sentence(other.why_not)}"


def _privacy(entry: Entry) -> Iterator[str]:
    if entry.privacy_found:
        yield f"Privacy: {counted(entry.privacy_found)} found; {_PRIVACY[entry.privacy_action]}."


def _cache(entry: Entry) -> Iterator[str]:
    label = entry.cache
    if label:
        alike = f"similarity {label.similarity:.3f}, at least {label.threshold:.3f} needed"
        yield (
            f"Cache ({label.tier}): answered before, {duration(label.age_s)} earlier, to “{label.question}” "
            f"({alike}; entry {label.entry})."
        )
    yield from (f"  Guard: {_sentence(each)}" for each in entry.cache_guards)


def _confidence(entry: Entry) -> Iterator[str]:
    judged = entry.confidence
    if judged:
        low = "too low to show it" if judged.is_low else "high enough to go on"
        rule = "hand it off" if judged.rule_escalates else "keep it"
        yield (
            f"Confidence after {judged.tokens} tokens: wrong with a chance of {judged.p_wrong:.0%} "
            f"(handed off from {judged.threshold:.0%} on): {low}. The plain 0.8 rule would {rule}."
        )


def _figures(entry: Entry) -> Iterator[str]:
    ends = _ENDS.get(entry.outcome, f"It failed: {entry.outcome}.")
    yield f"First words after {duration(entry.ttft_s)}, all after {duration(entry.total_s)}. {ends}"
    yield f"Tokens: {_tokens(entry)}."
    cost = f"Cost: {money(entry.cost_usd)}{' (simulated)' if entry.is_simulated else ''}"
    avoided = (
        ""
        if entry.answered_by == "cloud"
        else f"; by the cloud it would have been {money(entry.avoided_usd)}"
    )
    yield f"{cost}{avoided}."


def _tokens(entry: Entry) -> str:
    if entry.usage is None:
        return "unknown"
    cached = f" ({entry.usage.cached_tokens} of them cached)" if entry.usage.cached_tokens else ""
    guess = ", estimated from lengths" if entry.usage_is_estimate else ""
    return f"{entry.usage.prompt_tokens} in{cached}, {entry.usage.completion_tokens} out{guess}"


def _verdicts(entry: Entry) -> Iterator[str]:
    passed = [verdict.validator for verdict in entry.verdicts if verdict.passed]
    if passed:
        yield f"Checked and passed: {', '.join(passed)}."
    yield from (
        f"Check “{v.validator}” failed: {_sentence(v.detail)}" for v in entry.verdicts if not v.passed
    )


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
