"""What an answer cost: the table prices.toml, and the arithmetic.

Pure. Does not know providers' accounts; a price that is not known is None, never 0.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from router.request import Usage

TOKENS = 1e6  # that a price is for
_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens; ``cached`` of those tokens of the prompt that were cached there."""

    input_usd_per_mtok: float
    output_usd_per_mtok: float
    cached_usd_per_mtok: float
    source: str = ""

    def __str__(self) -> str:
        each = self.input_usd_per_mtok, self.cached_usd_per_mtok, self.output_usd_per_mtok
        return "${:g} in, ${:g} cached, ${:g} out per million tokens".format(*each)

    def cost_usd(self, usage: Usage) -> float:
        """A token of the prompt is paid for once, at the cached or the full price."""
        fresh = usage.prompt_tokens - usage.cached_tokens
        spent = fresh * self.input_usd_per_mtok + usage.cached_tokens * self.cached_usd_per_mtok
        return (spent + usage.completion_tokens * self.output_usd_per_mtok) / TOKENS


@cache
def price_table() -> dict[tuple[str, str], Price]:
    """Prices by provider and model."""
    table = tomllib.loads(files("router").joinpath("prices.toml").read_text(encoding="utf-8"))
    return {
        (group["provider"], row["model"]): Price(row["input"], row["output"], row["cached"], group["source"])
        for group in table["group"]
        for row in (dict(zip(group["columns"], values, strict=True)) for values in group["prices"])
    }


def find_price(provider: str, model: str) -> Price | None:
    """The list price, of a dated snapshot too; never that of a model with a similar name."""
    return price_table().get((provider, model)) or price_table().get((provider, _SNAPSHOT.sub("", model)))
