"""Sums over entries: what was spent, what was avoided, what stayed here."""

from __future__ import annotations

from dataclasses import dataclass

COLUMNS = """count(*), coalesce(sum(answered_by = 'local'), 0), coalesce(sum(answered_by = 'cloud'), 0),
    coalesce(sum(answered_by = 'cache'), 0), coalesce(sum(is_simulated), 0),
    coalesce(sum(prompt_tokens), 0), coalesce(sum(completion_tokens), 0),
    coalesce(sum(prompt_tokens IS NULL), 0), coalesce(sum(total_s), 0), coalesce(sum(total_s IS NULL), 0),
    coalesce(sum(CASE WHEN is_simulated THEN 0 ELSE cost_usd END), 0),
    coalesce(sum(CASE WHEN is_simulated THEN cost_usd END), 0),
    coalesce(sum(cost_usd IS NULL), 0),
    coalesce(sum(avoided_usd), 0), coalesce(sum(avoided_usd IS NULL AND answered_by <> 'cloud'), 0),
    coalesce(sum(CASE WHEN NOT left_the_machine THEN payload_bytes END), 0),
    coalesce(sum(CASE WHEN left_the_machine THEN payload_bytes END), 0)"""


@dataclass(frozen=True, slots=True)
class Totals:
    """``spent_usd`` is real money; that of a simulated cloud is apart. ``*_unknown`` counts answers
    for which nobody knows the figure before it: they are not in that sum. Bytes are of requests."""

    answers: int = 0
    local: int = 0
    cloud: int = 0
    cached: int = 0
    simulated: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    tokens_unknown: int = 0
    seconds: float = 0.0
    seconds_unknown: int = 0
    spent_usd: float = 0.0
    simulated_usd: float = 0.0
    spent_unknown: int = 0
    avoided_usd: float = 0.0
    avoided_unknown: int = 0
    kept_bytes: int = 0
    sent_bytes: int = 0
