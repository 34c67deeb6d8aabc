"""Catalogue facts and a quantisation -> ModelShape.

Owns which matrices a layer has by those facts, with llama.cpp's names. The types of
tensors are mixes.py's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from bandwidth_model.attention import Attention
from bandwidth_model.catalogue import KnownModel, find_known
from bandwidth_model.mixes import BASE_TYPES, Place, tensor_type
from bandwidth_model.shape import LayerShape, ModelShape

FLOAT_BYTES = 4  # norms, biases and routers stay F32


class Matrix(NamedTuple):
    """``role`` is its name in llama.cpp; ``routed``: ``copies`` of it, of which a token uses some."""

    role: str
    columns: int
    rows: int
    copies: int = 1
    routed: bool = False

    @property
    def elements(self) -> int:
        return self.columns * self.rows * self.copies


def shape_of_known(model: KnownModel, mix: str) -> ModelShape:
    """The model as llama.cpp quantises it to ``mix``, one of BASE_TYPES."""
    layers = _Layers(model, mix)
    parts = tuple(layers.at(index) for index in range(model.layers))
    head = layers.head()
    return ModelShape(
        name=f"{model.slug}:{mix.lower()}",
        architecture="",
        quantization=mix,
        layers=parts,
        head=head,
        parameters=sum(matrix.elements for matrix in all_matrices(model)) + all_vectors(model),
        file_bytes=sum(part.weight_bytes for part in (*parts, head)),
        hidden_size=model.hidden,
        vocabulary_size=model.vocabulary,
        context_length=model.context,
        expert_bytes=layers.expert_bytes(),
        experts_share=_experts_share(model),
    )


def known_shape(name: str) -> ModelShape | None:
    """The model called ``name`` or ``name:mix``; None if the catalogue does not have it."""
    called, _, mix = name.partition(":")
    model = find_known(called)
    if model is None or mix.upper() not in ("", *BASE_TYPES):
        return None
    return shape_of_known(model, mix.upper() or model.mixes[0])


def all_matrices(model: KnownModel) -> Iterator[Matrix]:
    for index in range(model.layers):
        yield from _matrices(model, _is_dense(model, index))
    yield from _tables(model)


def all_vectors(model: KnownModel) -> int:
    """Elements that are no matrix's: norms, biases, routers."""
    return model.hidden + sum(_vectors(model, _is_dense(model, index)) for index in range(model.layers))


class _Layers:
    """The layers of a model in one mix; those that are alike are computed once."""

    def __init__(self, model: KnownModel, mix: str) -> None:
        self._model = model
        self._mix = mix
        self._known: dict[tuple[bool, ...], LayerShape] = {}

    def at(self, index: int) -> LayerShape:
        model, place = self._model, self._place(index)
        rules = (place.more_bits, index < 2, index < model.layers // 16)  # all that mixes.py asks of it
        kind = (*rules, _slides(model, index), _is_dense(model, index))
        if kind not in self._known:
            self._known[kind] = self._layer(index, place)
        return self._known[kind]

    def head(self) -> LayerShape:
        """The embedding table, one row of it unless it is the output head too, that head, and a norm."""
        model = self._model
        tables = list(_tables(model))
        shares = [1 / model.vocabulary if table.role == "token_embd" else 1.0 for table in tables]
        return self._summed(tables, shares, model.hidden, None, Place(experts=model.experts))

    def expert_bytes(self) -> int:
        return sum(
            self._nbytes(matrix, self._place(index))
            for index in range(self._model.layers)
            for matrix in _matrices(self._model, _is_dense(self._model, index))
            if matrix.routed
        )

    def _layer(self, index: int, place: Place) -> LayerShape:
        model, dense = self._model, _is_dense(self._model, index)
        matrices = list(_matrices(model, dense))
        shares = [_experts_share(model) if matrix.routed else 1.0 for matrix in matrices]
        window = model.window if _slides(model, index) else None
        return self._summed(matrices, shares, _vectors(model, dense), _attention(model, window), place)

    def _summed(
        self,
        matrices: list[Matrix],
        shares: list[float],
        vectors: int,
        attention: Attention | None,
        place: Place,
    ) -> LayerShape:
        read: dict[str, float] = {"F32": vectors * FLOAT_BYTES}
        for matrix, share in zip(matrices, shares, strict=True):
            kind = self._type(matrix, place)
            read[kind] = read.get(kind, 0.0) + self._nbytes(matrix, place) * share
        weights = sum(self._nbytes(matrix, place) for matrix in matrices)
        active = sum(matrix.elements * share for matrix, share in zip(matrices, shares, strict=True))
        return LayerShape(read, weights + vectors * FLOAT_BYTES, round(active) + vectors, attention)

    def _type(self, matrix: Matrix, place: Place) -> str:
        return tensor_type(self._mix, matrix.role, matrix.columns, place).name

    def _nbytes(self, matrix: Matrix, place: Place) -> int:
        kind = tensor_type(self._mix, matrix.role, matrix.columns, place)
        return matrix.elements // kind.block_elements * kind.type_bytes

    def _place(self, index: int) -> Place:
        model = self._model
        return Place(index, model.layers, model.experts, is_70b=model.layers == 80)


def _is_dense(model: KnownModel, index: int) -> bool:
    return not model.experts or index < model.dense_layers


def _slides(model: KnownModel, index: int) -> bool:
    return bool(model.window) and index % model.full_every != model.full_every - 1


def _experts_share(model: KnownModel) -> float:
    return model.experts_used / model.experts if model.experts else 1.0


def _tables(model: KnownModel) -> Iterator[Matrix]:
    """Embedding table and output head; where they are one it counts as the head."""
    yield Matrix("output", model.hidden, model.vocabulary)
    if not model.tied:
        yield Matrix("token_embd", model.hidden, model.vocabulary)


def _matrices(model: KnownModel, dense: bool) -> Iterator[Matrix]:
    yield from _latent_matrices(model) if model.key_rank else _attention_matrices(model)
    if dense:
        yield from _feed_forward(model, model.feed_forward, "")
        return
    yield from _feed_forward(model, model.expert_feed_forward, "_exps")
    if model.shared_feed_forward:
        yield from _feed_forward(model, model.shared_feed_forward, "_shexp")


def _attention_matrices(model: KnownModel) -> Iterator[Matrix]:
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    if model.fused:
        yield Matrix("attn_qkv", model.hidden, queries + 2 * keys)
    else:
        yield Matrix("attn_q", model.hidden, queries)
        yield Matrix("attn_k", model.hidden, keys)
        yield Matrix("attn_v", model.hidden, keys)
    yield Matrix("attn_output", queries, model.hidden)


def _latent_matrices(model: KnownModel) -> Iterator[Matrix]:
    queries = model.heads * (model.nope_dim + model.rope_dim)
    if model.query_rank:
        yield Matrix("attn_q_a", model.hidden, model.query_rank)
        yield Matrix("attn_q_b", model.query_rank, queries)
    else:
        yield Matrix("attn_q", model.hidden, queries)
    yield Matrix("attn_kv_a_mqa", model.hidden, model.key_rank + model.rope_dim)
    yield Matrix("attn_k_b", model.nope_dim, model.key_rank * model.heads)
    yield Matrix("attn_v_b", model.key_rank, model.value_dim * model.heads)
    yield Matrix("attn_output", model.heads * model.value_dim, model.hidden)


def _feed_forward(model: KnownModel, width: int, suffix: str) -> Iterator[Matrix]:
    copies, routed = (model.experts, True) if suffix == "_exps" else (1, False)
    if model.fused or model.gate_up_fused:
        yield Matrix("ffn_up", model.hidden, 2 * width)
    else:
        yield Matrix(f"ffn_gate{suffix}", model.hidden, width, copies, routed)
        yield Matrix(f"ffn_up{suffix}", model.hidden, width, copies, routed)
    yield Matrix(f"ffn_down{suffix}", width, model.hidden, copies, routed)


def _vectors(model: KnownModel, dense: bool) -> int:
    """Elements of a layer that stay F32: norms, biases, sinks, and the router of experts."""
    queries, keys = model.heads * model.head_dim, model.kv_heads * model.head_dim
    count = model.norms * model.hidden + model.query_rank + model.key_rank
    count += {"": 0, "head": 2 * model.head_dim, "all": queries + keys}[model.qk_norm]
    if model.bias:
        count += queries + 2 * keys
    if not dense:
        count += model.experts * (model.hidden + model.router_bias)
    if model.bias == "all":
        experts = model.experts * (1 + 2 * model.expert_feed_forward + model.hidden)
        count += model.hidden + model.heads + experts
    return count


def _attention(model: KnownModel, window: int | None) -> Attention:
    if model.key_rank:
        return Attention(model.heads, 1, model.key_rank + model.rope_dim, model.key_rank, latent=True)
    return Attention(model.heads, model.kv_heads, model.head_dim, model.head_dim, window)
