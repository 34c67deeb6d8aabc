"""Shapes of served models: what their weights and their KV cache weigh.

Owns the table of models by name and the arithmetic of their layers. Knows no GPU.
Figures are those of each model's config.json on the Hugging Face Hub.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from router.errors import InvalidSimulation


@dataclass(frozen=True, slots=True)
class Llm:
    """A decoder-only transformer. ``matrices`` of the feed-forward part: 3 if gated, else 2. ``head_width``
    0 is the usual width over heads."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    inner_width: int
    vocabulary: int
    window_tokens: int
    matrices: int = 3
    bytes_per_weight: float = 2.0
    bytes_per_kv_value: float = 2.0
    head_width: int = 0

    def __post_init__(self) -> None:
        if not self.head_width:
            object.__setattr__(self, "head_width", self.width // self.heads)

    @property
    def attention_width(self) -> int:
        """Of all heads together; not the model's width where heads are wider."""
        return self.heads * self.head_width

    @property
    def layer_parameters(self) -> int:
        """Of all layers, without embedding and output head."""
        kv_width = self.kv_heads * self.head_width
        attention = 2 * self.width * self.attention_width + 2 * self.width * kv_width
        return self.layers * (attention + self.matrices * self.width * self.inner_width)

    @property
    def head_parameters(self) -> int:
        return self.width * self.vocabulary

    @property
    def weight_bytes(self) -> float:
        """All that lies in memory: layers, embedding and head (tied or not, an engine keeps both or one)."""
        return (self.layer_parameters + 2 * self.head_parameters) * self.bytes_per_weight

    @property
    def kv_bytes_per_token(self) -> float:
        return 2 * self.layers * self.kv_heads * self.head_width * self.bytes_per_kv_value


LLMS = {
    llm.name: llm
    for llm in (
        Llm("llama-3-8b", 32, 4096, 32, 8, 14336, 128256, 8192),
        Llm("llama-3.1-8b", 32, 4096, 32, 8, 14336, 128256, 131072),
        Llm("llama-3.2-1b", 16, 2048, 32, 8, 8192, 128256, 131072),
        Llm("llama-3.2-3b", 28, 3072, 24, 8, 8192, 128256, 131072),
        Llm("llama-3-70b", 80, 8192, 64, 8, 28672, 128256, 8192),
        Llm("llama-2-7b", 32, 4096, 32, 32, 11008, 32000, 4096),
        Llm("llama-2-13b", 40, 5120, 40, 40, 13824, 32000, 4096),
        Llm("llama-2-70b", 80, 8192, 64, 8, 28672, 32000, 4096),
        Llm("mistral-7b", 32, 4096, 32, 8, 14336, 32000, 32768),
        Llm("qwen2.5-7b", 28, 3584, 28, 4, 18944, 152064, 32768),
        Llm("qwen3-8b", 36, 4096, 32, 8, 12288, 151936, 40960),
        Llm("qwen3-14b", 40, 5120, 40, 8, 17408, 151936, 40960),
        Llm("qwen3-32b", 64, 5120, 64, 8, 25600, 151936, 40960, head_width=128),
        Llm("opt-13b", 40, 5120, 40, 40, 20480, 50272, 2048, matrices=2),
        Llm("opt-66b", 64, 9216, 72, 72, 36864, 50272, 2048, matrices=2),
    )
}


def find_llm(name: str) -> Llm:
    found = LLMS.get(name.lower())
    if found is not None:
        return found
    close = get_close_matches(name.lower(), LLMS, n=1, cutoff=0.4)
    hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(LLMS)}."
    raise InvalidSimulation(f"No model is called {name!r}.", hint)
