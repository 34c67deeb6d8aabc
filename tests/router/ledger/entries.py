"""Entries as an answer leaves them: one with everything in it, and plain ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from router.decision import Alternative, CacheLabel, Confidence, Estimate, Verdict
from router.ledger import Entry, new_id
from router.request import HandedOff, Sampling, Simulated, Usage

LOCAL = Estimate("local", "tiny", 0.4, 6.0, 0.0)
CLOUD = Estimate("cloud", "gpt-4.1-mini", 0.6, 3.5, 0.0012)

FULL = Entry(
    id="fullentry",
    started_at=1_700_000_000.5,
    mode="auto",
    route="local",
    answered_by="cloud",
    sent=True,
    model="gpt-4.1-mini",
    outcome="stop",
    conversation_id=7,
    provider="openai",
    version="2025-04-14",
    reasons=("The question looks easy.",),
    alternatives=(Alternative(CLOUD, "It costs money."),),
    difficulty=0.2,
    expected=LOCAL,
    parameters=Sampling(temperature=0.2, seed=5, stop=("END",)),
    prompt_sha256="ab" * 32,
    payload_bytes=1234,
    usage=Usage(100, 20, 50),
    ttft_s=0.7,
    total_s=4.0,
    cost_usd=0.0011,
    verdicts=(Verdict("format", True), Verdict("secrets", False, "The answer shows a secret.")),
    confidence=Confidence(0.7, 0.5, 16, True),
    cache=CacheLabel("semantic", 3, "And?", 0.97, 0.95, 60.0),
    cache_guards=("numbers differ",),
    privacy_action="redacted",
    privacy_found={"email": 2},
    hand_offs=(HandedOff("local", "cloud", "The beginning was not convincing."),),
    simulated=Simulated("a100", queue_s=0.25),
    prompt="What?",
    answer="That. \U0001f600",
)


def plain(number: int, **changes: Any) -> Entry:
    entry = Entry(
        id=new_id(),
        started_at=1_700_000_000.0 + number,
        mode="auto",
        route="local",
        answered_by="local",
        model="tiny",
        outcome="stop",
        payload_bytes=100,
        usage=Usage(10, 0, 5),
        total_s=2.0,
        cost_usd=0.0,
        avoided_usd=0.001,
    )
    return replace(entry, **changes)
