"""Encoder models: their shapes, and what a batch of texts costs on a GPU.

Owns the arithmetic of bidirectional layers (every token attends to every token of its text).
Shapes are those of each model's config.json on the Hugging Face Hub. Knows no queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

from router.errors import InvalidSimulation
from router.simcloud.gpu import Gpu

LAUNCH_S_PER_LAYER = 93e-6
"""What a layer takes however little is in it: published 1.23 ms for one text of 128 tokens through BERT-base
on an A100, less the arithmetic, over 12 layers. It is the host launching kernels, so no GPU shortens it."""


@dataclass(frozen=True, slots=True)
class Encoder:
    name: str
    layers: int
    width: int
    inner_width: int
    window_tokens: int = 512
    bytes_per_weight: float = 2.0

    @property
    def layer_parameters(self) -> int:
        """Of all layers: four square projections and two of the feed-forward part in each."""
        return self.layers * (4 * self.width**2 + 2 * self.width * self.inner_width)

    def flops(self, texts: int, tokens: int) -> float:
        """Of ``texts`` with ``tokens`` each."""
        attention = 4 * self.layers * self.width * tokens**2
        return texts * (2 * self.layer_parameters * tokens + attention)

    def batch_s(self, texts: int, tokens: int, gpu: Gpu) -> float:
        """Roofline: arithmetic or reading the weights, whichever takes longer, and the launches."""
        read_s = self.layer_parameters * self.bytes_per_weight / gpu.bytes_per_s
        compute_s = self.flops(texts, tokens) / gpu.flops_per_s
        return self.layers * LAUNCH_S_PER_LAYER + max(compute_s, read_s)


ENCODERS = {
    encoder.name: encoder
    for encoder in (
        Encoder("bert-base", 12, 768, 3072),
        Encoder("bert-large", 24, 1024, 4096),
        Encoder("distilbert", 6, 768, 3072),
        Encoder("minilm-l6", 6, 384, 1536),
        Encoder("bge-large", 24, 1024, 4096),
    )
}


def find_encoder(name: str) -> Encoder:
    found = ENCODERS.get(name.lower())
    if found is not None:
        return found
    close = get_close_matches(name.lower(), ENCODERS, n=1, cutoff=0.5)
    hint = f"Did you mean {close[0]}?" if close else f"Known: {', '.join(ENCODERS)}."
    raise InvalidSimulation(f"No encoder is called {name!r}.", hint)
