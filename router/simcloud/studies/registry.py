"""Which studies there are: the modules of this package that have ``NAME``, ``SUMMARY`` and ``run``.

Owns finding them. Knows no study by name. ``run(seed, progress)`` yields tables that each hold more
than the one before: whoever stops early keeps the last.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from router.errors import InvalidSimulation
from router.simcloud import studies
from router.simcloud.studies.table import Table

Progress = Callable[[float], None]
"""Called with the share that is done, from 0 to 1."""


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    summary: str
    tables: Callable[[int, Progress], Iterator[Table]]


def all_studies() -> dict[str, Study]:
    """By name, in alphabetical order."""
    names = (module.name for module in pkgutil.iter_modules(studies.__path__))
    modules = [importlib.import_module(f"{studies.__name__}.{name}") for name in names]
    found = [
        Study(module.NAME, module.SUMMARY, module.run) for module in modules if hasattr(module, "SUMMARY")
    ]
    return {study.name: study for study in sorted(found, key=lambda study: study.name)}


def find_study(name: str) -> Study:
    known = all_studies()
    if name in known:
        return known[name]
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.4)
    hint = f"Did you mean {close[0]}?" if close else f"There are: {', '.join(known)}."
    raise InvalidSimulation(f"No study is called {name!r}.", hint)
