"""What happens to text on its way into the store and into a one-line label.

Owns the two rules: lone surrogates become U+FFFD (UTF-8, and so SQLite, has no
place for them; everything else, NUL included, is kept as it is), and a label is
one line that cannot move the cursor or turn the writing direction of its row.
Knows nothing of SQL.
"""

from __future__ import annotations

import re

TITLE_CHARS = 60

_SURROGATE = re.compile("[\ud800-\udfff]")
# C0, DEL and C1 controls, line and paragraph separators, bidirectional embeddings, overrides and isolates.
# Joiners stay: emoji and Persian need them.
_UNSAFE_IN_A_LINE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_TITLE_SEARCH_CHARS = 4096  # a message of megabytes is not searched to its end for a title


def storable(text: str) -> str:
    """``text`` with every lone surrogate replaced by U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def one_line(text: str) -> str:
    """``text`` as a single line: no control characters, runs of white space as one space."""
    return " ".join(_UNSAFE_IN_A_LINE.sub(" ", storable(text)).split())


def title_from(content: str) -> str:
    """The first line of ``content`` with anything to show, at most TITLE_CHARS long; or ``""``."""
    lines = content.lstrip()[:_TITLE_SEARCH_CHARS].splitlines()
    title = next(filter(None, map(one_line, lines)), "")
    return title if len(title) <= TITLE_CHARS else title[: TITLE_CHARS - 1].rstrip() + "…"
