"""Well-known open models by name, before anybody downloads them: the facts of their config.json.

Owns the table catalogue.toml. Does not know which files are on this machine, nor what
the facts mean for speed and memory (catalogue_shape does).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

USUAL_MIXES = ("Q4_K_M", "Q8_0")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownModel:
    """The facts of one model; catalogue.toml says what each means."""

    name: str
    source: str
    parameters: int
    context: int
    layers: int
    hidden: int
    heads: int
    vocabulary: int
    kv_heads: int = 1
    head_dim: int = 0
    feed_forward: int = 0
    tied: bool = False
    norms: int = 2
    bias: str = ""
    qk_norm: str = ""
    fused: bool = False
    gate_up_fused: bool = False
    window: int = 0
    full_every: int = 0
    experts: int = 0
    experts_used: int = 0
    expert_feed_forward: int = 0
    shared_feed_forward: int = 0
    dense_layers: int = 0
    router_bias: bool = False
    query_rank: int = 0
    key_rank: int = 0
    rope_dim: int = 0
    nope_dim: int = 0
    value_dim: int = 0
    mixes: tuple[str, ...] = USUAL_MIXES

    @property
    def slug(self) -> str:
        """The name to type."""
        return self.name.lower().replace(" ", "-")


@cache
def known_models() -> tuple[KnownModel, ...]:
    """The whole table, by number of parameters."""
    table = tomllib.loads(files("bandwidth_model").joinpath("catalogue.toml").read_text(encoding="utf-8"))
    found = [model for group in table["group"] for model in _of_group(group)]
    return tuple(sorted(found, key=lambda model: model.parameters))


def find_known(name: str) -> KnownModel | None:
    """The model called ``name``, as the table or a person spells it."""
    wanted = name.strip().lower()
    return next((each for each in known_models() if wanted in (each.slug, each.name.lower())), None)


def _of_group(group: dict[str, object]) -> Iterator[KnownModel]:
    shared = {key: value for key, value in group.items() if key not in ("columns", "models")}
    columns, rows = group["columns"], group["models"]
    assert isinstance(columns, list)
    assert isinstance(rows, list)
    for row in rows:
        facts = {**shared, **dict(zip(columns, row, strict=True))}
        facts["mixes"] = tuple(facts.get("mixes", USUAL_MIXES))
        yield KnownModel(**facts)
