"""The tables formats.toml and services.toml, read once and only when something is looked for."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

LONGEST_PREFIX = 6  # digits: the issuer's part of a card number


@dataclass(frozen=True, slots=True)
class Service:
    """Keys of one service begin with one of ``begins``, and go on as ``rest`` says.

    ``needs_digit``: without one it is a word that begins alike.
    """

    name: str
    begins: tuple[str, ...]
    rest: re.Pattern[str]
    needs_digit: bool
    source: str


@cache
def card_networks() -> dict[str, tuple[str, range]]:
    """Network and lengths by the digits a number begins with."""
    table = _table("formats.toml")["cards"]
    networks: dict[str, tuple[str, range]] = {}
    for row in table["rows"]:
        network, first, last, shortest, longest = row
        for prefix in range(first, last + 1):
            networks.setdefault(str(prefix), (network, range(shortest, longest + 1)))
    return networks


@cache
def iban_lengths() -> dict[str, int]:
    return dict(_table("formats.toml")["iban"]["lengths"])


@cache
def services() -> tuple[Service, ...]:
    return tuple(
        Service(
            row["name"],
            tuple(row["begins"]),
            re.compile(row["rest"], re.ASCII),
            row.get("needs_digit", False),
            row["source"],
        )
        for row in _table("services.toml")["service"]
    )


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads(files("router.privacy").joinpath(name).read_text(encoding="utf-8"))
