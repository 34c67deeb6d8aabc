"""Which cloud is meant: a preset and what a person set differently, joined and checked.

Owns the table presets.toml. Pure: no connection is opened and no key is read here.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib.resources import files

from router.cloud.address import Address, parse_base_url
from router.cloud.wire import Dialect
from router.errors import CloudMisconfigured
from router.prices import Price, find_price


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of server. ``base_url`` and ``model`` are "" where they must be set."""

    name: str
    base_url: str
    key_variable: str
    model: str
    dialect: Dialect
    source: str


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The longest waits, in seconds. ``first_token_s`` and ``total_s`` are for all tries together.

    ``idle_s`` is between two pieces of an answer; keep-alive comments are none. The total is
    that of the OpenAI SDK: https://github.com/openai/openai-python/blob/main/src/openai/_constants.py
    """

    connect_s: float = 10.0
    first_token_s: float = 60.0
    idle_s: float = 30.0
    total_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Target:
    """Everything but the key. ``temperature`` replaces the request's, None keeps it."""

    address: Address
    model: str
    provider: str = "custom"
    dialect: Dialect = field(default_factory=Dialect)
    deadlines: Deadlines = field(default_factory=Deadlines)
    temperature: float | None = None
    price: Price | None = None
    key_variable: str = ""

    def __str__(self) -> str:
        return f"{self.provider}: {self.model} at {self.address.base_url}"


@cache
def presets() -> dict[str, Preset]:
    table = tomllib.loads(files("router.cloud").joinpath("presets.toml").read_text(encoding="utf-8"))
    return {name: _preset(name, entry) for name, entry in table.items()}


def _preset(name: str, entry: dict[str, object]) -> Preset:
    rest = dict(entry)
    told = {key: str(rest.pop(key, "")) for key in ("base_url", "key_variable", "model", "source")}
    patterns = rest.pop("fixed_sampling", [])
    assert isinstance(patterns, list)
    return Preset(name, dialect=Dialect(fixed_sampling=tuple(patterns), **rest), **told)  # type: ignore[arg-type]  # names are those of Dialect; a test reads the table


def make_target(
    preset: str,
    *,
    base_url: str = "",
    model: str = "",
    key_variable: str = "",
    deadlines: Deadlines | None = None,
    temperature: float | None = None,
    price: Price | None = None,
) -> Target:
    """Join a preset with what is set; "" and None leave the preset's. Raises CloudMisconfigured.

    The preset's key variable counts for the preset's own host only: a key must not go
    elsewhere because an address was changed.
    """
    chosen = _find(preset)
    address = parse_base_url(_given("base_url", base_url or chosen.base_url, chosen))
    at_home = bool(chosen.base_url) and address.place == parse_base_url(chosen.base_url).place
    name = _given("model", model or chosen.model, chosen)
    return Target(
        address,
        name,
        chosen.name,
        chosen.dialect,
        deadlines or Deadlines(),
        temperature,
        price or (find_price(chosen.name, name) if at_home else None),
        key_variable or (chosen.key_variable if at_home or address.is_loopback else ""),
    )


def _find(name: str) -> Preset:
    if name in presets():
        return presets()[name]
    near = get_close_matches(name, presets(), n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(presets())}."
    raise CloudMisconfigured(f"No cloud preset is called {name!r}.", hint)


def _given(what: str, value: str, preset: Preset) -> str:
    if not value:
        raise CloudMisconfigured(
            f"The cloud preset {preset.name} needs {what}.", f"Set {what} in [cloud] of the settings."
        )
    return value
