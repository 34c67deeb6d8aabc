"""Which packages lie in an environment, and which of them an interruption left half there.

Reads folders only; runs nothing and imports nothing from the environment.
"""

from __future__ import annotations

import csv
import re
import shutil
from collections.abc import Iterator
from pathlib import Path


def normal(name: str) -> str:
    """One spelling a name: PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def installed(site: Path) -> dict[str, str]:
    """Version by normal name."""
    return {name: version for name, version, _ in _records(site)}


def incomplete(site: Path) -> list[str]:
    """Names of packages whose own list of files is missing or names files that are not there."""
    return [name for name, _, info in _records(site) if not _complete(info)]


def forget(site: Path, names: list[str]) -> None:
    """Make pip install them again: it goes by these folders, and writes over what is there."""
    for name, _, info in list(_records(site)):
        if name in names:
            shutil.rmtree(info)


def pins(constraints: str) -> dict[str, str]:
    """Version by normal name, from the ``name==version`` lines."""
    lines = (line.partition("#")[0].strip().partition("==") for line in constraints.splitlines())
    return {normal(name): version for name, equals, version in lines if equals}


def _records(site: Path) -> Iterator[tuple[str, str, Path]]:
    for info in sorted(site.glob("*.dist-info")):
        name, _, version = info.name[: -len(".dist-info")].partition("-")
        yield normal(name), version, info


def _complete(info: Path) -> bool:
    try:
        with (info / "RECORD").open(encoding="utf-8", newline="") as file:
            paths = [row[0] for row in csv.reader(file) if row]
    except OSError:
        return False
    # Compiled Python may be cleaned away at any time and comes back by itself.
    return all((info.parent / path).exists() for path in paths if not path.endswith(".pyc"))
