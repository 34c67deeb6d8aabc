"""What of a model decides its speed: bytes, operations and cache for one token, layer by layer.

Owns the arithmetic over layers. Does not know file formats (gguf_shape, mlc_shape read
those) nor devices.

A token reads every weight once, except: of an embedding table one row (unless the table
is also the output head), of expert layers the active experts. Sums run over tensors, never
over a file's label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bandwidth_model.attention import Attention, kv_element_bytes
from bandwidth_model.attention_cost import attention_work
from bandwidth_model.ggml_types import element_bytes

MULTIPLY_ADD = 2  # operations a weight costs for one token


@dataclass(frozen=True, slots=True)
class LayerShape:
    """One block, or what lies outside of the blocks.

    ``read_bytes`` is by quantisation, for one token. ``state_bytes`` is what a
    recurrent layer keeps whatever the depth; a token reads it and writes it back.
    """

    read_bytes: Mapping[str, float]
    weight_bytes: int
    active_parameters: int
    attention: Attention | None = None
    state_bytes: int = 0

    @property
    def bytes_per_token(self) -> float:
        return sum(self.read_bytes.values())


NO_WEIGHTS = LayerShape({}, 0, 0)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """``head`` holds what is outside of the layers: output head, norms, embedding tables."""

    name: str
    architecture: str
    quantization: str
    layers: tuple[LayerShape, ...]
    head: LayerShape
    parameters: int
    file_bytes: int
    hidden_size: int = 0
    vocabulary_size: int = 0
    context_length: int | None = None
    expert_bytes: int = 0  # of weight_bytes, what belongs to experts of which not all are used
    experts_share: float = 1.0  # of those experts, the share that one token uses
    kv_type: str = "F16"

    @property
    def parts(self) -> tuple[LayerShape, ...]:
        return (*self.layers, self.head)

    @property
    def identity(self) -> str:
        """Tells a model from others when speeds are remembered, whatever it is called."""
        figures = (len(self.layers), self.parameters, self.weight_bytes, round(self.bytes_per_token))
        heads = sorted({f"{each.heads}/{each.kv_heads}x{each.key_length}" for each in self._attentions})
        return " ".join(map(str, (self.architecture, *sorted(self.bytes_by_quantization), *heads, *figures)))

    @property
    def bytes_by_quantization(self) -> dict[str, float]:
        """What one token reads of the weights, by the type they are stored in."""
        return merged(self.parts)

    @property
    def bytes_per_token(self) -> float:
        return sum(part.bytes_per_token for part in self.parts)

    @property
    def weight_bytes(self) -> int:
        """All weights, used for a token or not: what memory must hold."""
        return sum(part.weight_bytes for part in self.parts)

    @property
    def active_parameters(self) -> int:
        return sum(part.active_parameters for part in self.parts)

    @property
    def state_bytes(self) -> int:
        """Recurrent state of all layers, the same at every depth."""
        return sum(layer.state_bytes for layer in self.layers)

    def flops_per_token(self, depth: float = 0) -> float:
        return MULTIPLY_ADD * self.active_parameters + sum(each.flops(depth) for each in self._attentions)

    def kv_bytes(self, context: float, kv_type: str | None = None) -> float:
        """What the caches and states take for a context of that many tokens."""
        kind = kv_type or self.kv_type
        return self.state_bytes + sum(each.stored_bytes(context, kind) for each in self._attentions)

    def kv_bytes_per_token(self, kv_type: str | None = None) -> float:
        """What the first tokens add to the caches, each; windows have not closed yet."""
        elements = sum(each.elements_per_token for each in self._attentions if each.stores)
        return elements * kv_element_bytes(kv_type or self.kv_type)

    def kv_read_bytes(self, depth: float, kv_type: str | None = None) -> float:
        """What one token reads of caches and states, and writes back of the states."""
        return sum(layer_kv_read_bytes(layer, depth, kv_type or self.kv_type) for layer in self.layers)

    def kv_query_bytes(self, depth: float, kv_type: str | None = None) -> float:
        """What one token reads of caches where every query head reads them anew."""
        kind = kv_type or self.kv_type
        return sum(each.read_bytes(depth, kind) * each.query_ratio for each in self._attentions)

    def attention_work(self, depth: float, threads: int, kv_type: str | None = None) -> dict[str, float]:
        """Units of work of one token's attention on a processor, all layers; see attention_cost.py."""
        total: dict[str, float] = {}
        for attention, layers in Counter(self._attentions).items():
            for unit, amount in attention_work(attention, depth, kv_type or self.kv_type, threads).items():
                total[unit] = total.get(unit, 0.0) + layers * amount
        return total

    def prefill_flops(self, prompt_tokens: int, start: float = 0) -> float:
        """Operations for a prompt at depth ``start``; the output head runs for its last token only."""
        in_layers = sum(layer.active_parameters for layer in self.layers)
        weights = MULTIPLY_ADD * (in_layers * prompt_tokens + self.head.active_parameters)
        return weights + self.attention_flops(prompt_tokens, start)

    def attention_flops(self, prompt_tokens: int, start: float = 0) -> float:
        """Of a prompt's operations, those over the caches."""
        return sum(
            each.flops(1) * each.mean_tokens_seen(start, prompt_tokens) * prompt_tokens
            for each in self._attentions
        )

    def prefill_flops_by_quantization(self, prompt_tokens: int) -> dict[str, float]:
        """Of a prompt's operations, those over weights, by the type these are stored in."""
        total: dict[str, float] = {}
        for part, tokens in [*((layer, prompt_tokens) for layer in self.layers), (self.head, 1)]:
            elements = {kind: nbytes / element_bytes(kind) for kind, nbytes in part.read_bytes.items()}
            flops = MULTIPLY_ADD * part.active_parameters * tokens / (sum(elements.values()) or 1.0)
            for kind, count in elements.items():
                total[kind] = total.get(kind, 0.0) + count * flops
        return total

    def read_bytes_for_batch(self, tokens: float) -> float:
        """Weights read once for ``tokens`` tokens computed together; more of them touch more experts."""
        touched = 1 - float((1 - self.experts_share) ** tokens)
        return self.bytes_per_token + self.expert_bytes * (touched - self.experts_share)

    @property
    def _attentions(self) -> Iterable[Attention]:
        return (layer.attention for layer in self.layers if layer.attention is not None)


def layer_kv_read_bytes(layer: LayerShape, depth: float, kv_type: str) -> float:
    cached = layer.attention.read_bytes(depth, kv_type) if layer.attention else 0.0
    return cached + 2 * layer.state_bytes


def merged(parts: Sequence[LayerShape]) -> dict[str, float]:
    """Bytes that one token reads of several layers, by quantisation."""
    total: dict[str, float] = {}
    for part in parts:
        for quantization, nbytes in part.read_bytes.items():
            total[quantization] = total.get(quantization, 0.0) + nbytes
    return total


def weight_bytes(parameters: float, bits_per_weight: float) -> float:
    """The size of a model known by its parameter count alone: 7e9 at 4.5 bits are 3.94 GB."""
    return parameters * bits_per_weight / 8


def plain_shape(
    name: str,
    *,
    parameters: float,
    bits_per_weight: float,
    layers: int = 0,
    attention: Attention | None = None,
    quantization: str = "Q4_K",
) -> ModelShape:
    """A dense model without a file, its weights spread evenly; all of them are read for a token."""
    total = weight_bytes(parameters, bits_per_weight)
    count = max(layers, 1)
    layer = LayerShape(
        {quantization: total / count}, round(total / count), round(parameters / count), attention
    )
    return ModelShape(
        name=name,
        architecture="",
        quantization=quantization,
        layers=(layer,) * count,
        head=NO_WEIGHTS,
        parameters=round(parameters),
        file_bytes=round(total),
    )
