"""How long an answer is kept: by what kind of question it answers. No hit extends it.

Pure. What never lasts is not kept at all (:mod:`router.cache.eligible`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DAY_S = 86_400.0

# Who holds an office, what a thing costs, which release is out: true for a while.
_CHANGING = re.compile(
    r"\b(?:who (?:is|are|leads|runs|owns)|price|prices|cost|costs|salary|salaries|wage|rate|rates|rank\w*|"
    r"population|version|release|best|top|fastest|largest|richest|most|record|champion|president|"
    r"minister|chancellor|king|queen|pope|ceo|law|laws|legal|illegal|tax|taxes|visa|deadline|schedule|"
    r"how much|how old|how many people|20[2-9]\d)\b",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\b(?:what does \w+ mean|definition|define|meaning of|formula|theorem|proof|prove|synonym|"
    r"translate|convert|how do you say|difference between|who (?:wrote|painted|invented|discovered|composed)|"
    r"when (?:was|did)|algorithm|square root)\b|```|`[^`]+`",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Lifetime:
    kind: str
    seconds: float


LASTING = Lifetime("lasting", 30 * DAY_S)
ORDINARY = Lifetime("ordinary", 7 * DAY_S)
CHANGING = Lifetime("changing", 1 * DAY_S)


def lifetime_of(question: str) -> Lifetime:
    """The shorter one wins where a question is of two kinds."""
    if _CHANGING.search(question):
        return CHANGING
    return LASTING if _LASTING.search(question) else ORDINARY
