"""``--per-request FILE``: a CSV line for each request, written when it ends.

Owns opening the file and what is said when that fails. Columns and lines are the command's.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from localchat.errors import LocalchatError

Outcome = TypeVar("Outcome")


@contextmanager
def each_request(
    path: Path | None, columns: Sequence[str], line: Callable[[Outcome], Sequence[object]]
) -> Iterator[Callable[[Outcome], None] | None]:
    """What to call with each outcome; None if no file is asked for."""
    if path is None:
        yield None
        return
    try:
        file = path.open("w", encoding="utf-8", newline="")
    except OSError as error:
        raise LocalchatError(f"{path}: {error.strerror}.") from error
    with file:
        lines = csv.writer(file)
        lines.writerow(columns)
        yield lambda outcome: lines.writerow(line(outcome))
