"""Numbers on the command line of ``localchat simulate``: which of them could not mean anything.

Owns those rules and their one-line refusals. What numbers mean together is router.simcloud's to check.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from localchat.errors import UsageError


class Rule(NamedTuple):
    words: str
    holds: Callable[[float], bool]


POSITIVE = Rule("above 0", lambda value: 0 < value < math.inf)
NOT_NEGATIVE = Rule("of 0 or more", lambda value: 0 <= value < math.inf)
SHARE = Rule("from 0 to 1", lambda value: 0 <= value <= 1)

OF_A_RUN = {
    "gpus": POSITIVE,
    "block_size": POSITIVE,
    "swap": POSITIVE,
    "max_tokens": NOT_NEGATIVE,
    "link": POSITIVE,
    "clients": POSITIVE,
    "think": NOT_NEGATIVE,
    "prefill_gpus": POSITIVE,
    "slo_ttft": POSITIVE,
    "slo_tpot": POSITIVE,
    "slo_e2e": POSITIVE,
    "usd_per_hour": NOT_NEGATIVE,
}
OF_BATCHING = {
    "rate": POSITIVE,
    "timeout": NOT_NEGATIVE,
    "urgent": SHARE,
    "slo": POSITIVE,
    "usd_per_hour": NOT_NEGATIVE,
}


def check_numbers(args: argparse.Namespace, rules: Mapping[str, Rule]) -> None:
    """UsageError for the first flag whose number breaks its rule; flags that were not given are fine."""
    for name, rule in rules.items():
        value = getattr(args, name)
        if value is not None and not rule.holds(value):
            raise UsageError(f"--{name.replace('_', '-')} {value:g}: give a number {rule.words}.")
