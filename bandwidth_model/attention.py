"""What a layer keeps of the context: how many bytes, and how many of them one token reads.

Owns the arithmetic of attention caches (grouped, sliding-window, latent). Does not
know which layer of which model has which; recurrent state is a plain number of bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from bandwidth_model.errors import UnknownKvType
from bandwidth_model.ggml_types import GGML_TYPES


@cache
def kv_element_bytes(kv_type: str) -> float:
    """Bytes of one cached element of a storage type such as F16 or Q8_0, in any case."""
    for kind in GGML_TYPES.values():
        if kind.name == kv_type.upper():
            return kind.type_bytes / kind.block_elements
    raise UnknownKvType(kv_type)


@dataclass(frozen=True, slots=True)
class Attention:
    """The attention of one layer.

    ``window`` is the number of latest tokens it sees, None: all. ``latent``: the
    value lies inside the cached key, which all heads share (multi-head latent
    attention). ``stores`` False: it reads the cache of an earlier layer.
    """

    heads: int
    kv_heads: int
    key_length: int
    value_length: int
    window: int | None = None
    latent: bool = False
    stores: bool = True

    @property
    def elements_per_token(self) -> int:
        """Cached elements for each token it sees."""
        return self.kv_heads * (self.key_length + (0 if self.latent else self.value_length))

    @property
    def query_ratio(self) -> float:
        """Query heads to each cached head: how often a cache is read that no kernel shares."""
        return self.heads / self.kv_heads

    def tokens_seen(self, depth: float) -> float:
        return depth if self.window is None else min(depth, self.window)

    def read_bytes(self, depth: float, kv_type: str) -> float:
        """What one token reads when ``depth`` tokens came before it."""
        return self.elements_per_token * self.tokens_seen(depth) * kv_element_bytes(kv_type)

    def stored_bytes(self, context: float, kv_type: str) -> float:
        """What the cache takes for a context of that many tokens."""
        return self.read_bytes(context, kv_type) if self.stores else 0.0

    def flops(self, depth: float) -> float:
        """Scores and weighted values, two operations for each multiplication."""
        return 2 * self.heads * (self.key_length + self.value_length) * self.tokens_seen(depth)

    def mean_tokens_seen(self, start: float, count: float) -> float:
        """The mean of tokens_seen over a prompt of ``count`` tokens that begins at depth ``start``."""
        if self.window is None or start + count <= self.window:
            return start + count / 2
        if start >= self.window:
            return float(self.window)
        growing = self.window - start
        return (growing * (start + growing / 2) + (count - growing) * self.window) / count
