"""MLC headers -> ModelShape.

Owns the parameter names and model_config keys of mlc-llm. Does not read files.

Names: python/mlc_llm/model/* and python/mlc_llm/quantization/quantization.py of mlc-llm.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from bandwidth_model.attention import Attention
from bandwidth_model.errors import HeaderError
from bandwidth_model.mlc import MlcHeader, MlcParameter, dtype_bits
from bandwidth_model.shape import LayerShape, ModelShape

MAX_LAYERS = 2048

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d{1,4})\.")
_EMBEDDING = re.compile(r"(?:embed_tokens|wte|word_embeddings|tok_embeddings|embeddings|embd)\.")
_HEAD = re.compile(r"lm_head|embed_out|output\.")
# q4f16_1: weights of 4 bits, activations and cache in float16
_QUANTIZATION = re.compile(r"[a-z](\d)(?:[a-z]+)?(?:_e\dm\d)?_?(bf16|f16|f32)")
_CACHE_TYPES = {"f16": "F16", "bf16": "BF16", "f32": "F32"}


def shape_of_mlc(header: MlcHeader, name: str = "") -> ModelShape:
    by_layer, outside = _grouped(header.parameters)
    share, experts = _experts(header)
    routed = [each for layer in by_layer for each in layer if _is_routed(each, experts)]
    window = header.whole("context_window_size", "max_position_embeddings")
    return ModelShape(
        name=name or header.model_type,
        architecture=header.model_type,
        quantization=header.quantization,
        layers=tuple(_layer(header, index, layer) for index, layer in enumerate(by_layer)),
        head=_head(header, outside),
        parameters=sum(_weights(each, header.quantization) for each in header.parameters),
        file_bytes=sum(each.stored_bytes for each in header.parameters),
        hidden_size=header.whole("hidden_size", "n_embd"),
        vocabulary_size=header.whole("vocab_size"),
        context_length=window or None,
        expert_bytes=sum(each.memory_bytes for each in routed),
        experts_share=share if routed else 1.0,
        kv_type=_cache_type(header.quantization),
    )


def _grouped(parameters: Sequence[MlcParameter]) -> tuple[list[list[MlcParameter]], list[MlcParameter]]:
    by_layer: defaultdict[int, list[MlcParameter]] = defaultdict(list)
    outside: list[MlcParameter] = []
    for parameter in parameters:
        found = _LAYER.search(parameter.name)
        if found is None:
            outside.append(parameter)
        elif int(found[1]) >= MAX_LAYERS:
            raise HeaderError(f"the parameter {parameter.name!r} claims more than {MAX_LAYERS} layers")
        else:
            by_layer[int(found[1])].append(parameter)
    return [by_layer[index] for index in range(max(by_layer, default=-1) + 1)], outside


def _layer(header: MlcHeader, index: int, parameters: list[MlcParameter]) -> LayerShape:
    share, experts = _experts(header)
    shares = [share if _is_routed(each, experts) else 1.0 for each in parameters]
    return _summed(header, parameters, shares, _attention(header, index))


def _head(header: MlcHeader, parameters: list[MlcParameter]) -> LayerShape:
    tied = header.flag("tie_word_embeddings") or not any(_HEAD.search(each.name) for each in parameters)
    shares = [
        1 / max(1, each.shape[0]) if _EMBEDDING.search(each.name) and not tied and each.shape else 1.0
        for each in parameters
    ]
    return _summed(header, parameters, shares, None)


def _summed(
    header: MlcHeader, parameters: list[MlcParameter], shares: list[float], attention: Attention | None
) -> LayerShape:
    pairs = list(zip(parameters, shares, strict=True))
    return LayerShape(
        read_bytes={header.quantization: sum(each.memory_bytes * share for each, share in pairs)},
        weight_bytes=sum(each.memory_bytes for each in parameters),
        active_parameters=round(sum(_weights(each, header.quantization) * share for each, share in pairs)),
        attention=attention,
    )


def _weights(parameter: MlcParameter, quantization: str) -> int:
    """Weights in a parameter: several to a word where it is quantised, none where it is a scale."""
    if parameter.name.endswith((".q_scale", ".q_zeros", ".q_bias", ".q_calibration_scale")):
        return 0
    found = _QUANTIZATION.match(quantization)
    bits = int(found[1]) if found else 0
    if parameter.dtype.startswith(("uint", "int")) and 0 < bits <= 8:
        return parameter.elements * (dtype_bits(parameter.dtype) // bits)
    return parameter.elements


def _cache_type(quantization: str) -> str:
    found = _QUANTIZATION.match(quantization)
    return _CACHE_TYPES[found[2]] if found else "F16"


def _experts(header: MlcHeader) -> tuple[float, int]:
    """The share of the routed experts that a token uses, and how many there are."""
    count = header.whole("num_local_experts", "num_experts", "n_routed_experts")
    used = header.whole("num_experts_per_tok")
    return (min(1.0, used / count), count) if used and count else (1.0, 0)


def _is_routed(parameter: MlcParameter, experts: int) -> bool:
    """Experts are stacked: a first dimension more than a matrix has."""
    return experts > 1 and len(parameter.shape) >= 3 and parameter.shape[0] == experts


def _attention(header: MlcHeader, index: int) -> Attention | None:
    heads = header.whole("num_attention_heads", "n_head")
    if not heads:  # recurrent models keep no cache
        return None
    rank = header.whole("kv_lora_rank")
    if rank:
        return Attention(heads, 1, rank + header.whole("qk_rope_head_dim"), rank, latent=True)
    kv_heads = header.whole("num_key_value_heads", "multi_query_group_num", default=heads) or heads
    width = header.whole("head_dim") or header.whole("hidden_size", "n_embd") // heads
    return Attention(heads, kv_heads, width, width, _window(header, index))


def _window(header: MlcHeader, index: int) -> int | None:
    window = header.whole("sliding_window_size", "sliding_window")
    period = header.whole("sliding_window_pattern")
    if not window or (period and index % period == period - 1):
        return None
    return window
