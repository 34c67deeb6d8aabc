"""Which type each tensor gets when llama.cpp quantises a model to one of its usual mixes.

Owns those rules, without importance matrices. Does not know any model.

Rules: llama_tensor_get_type_impl and tensor_type_fallback in src/llama-quant.cpp of llama.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass

from bandwidth_model.ggml_types import GGML_TYPES, GgmlType

# What a tensor gets where no rule says otherwise.
BASE_TYPES = {
    "F16": "F16",
    "Q8_0": "Q8_0",
    "Q6_K": "Q6_K",
    "Q5_K_M": "Q5_K",
    "Q4_K_M": "Q4_K",
    "Q3_K_M": "Q3_K",
    "Q4_0": "Q4_0",
    "MXFP4": "Q8_0",
}
# For rows that are no multiple of 256: types with blocks of 32.
_FALLBACKS = {"Q3_K": "Q4_0", "Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"}
_BY_NAME = {kind.name: kind for kind in GGML_TYPES.values()}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor is: in which of how many layers of a model with how many experts.

    ``is_70b``: llama.cpp counts the model among those of 70B with 80 layers, and
    spends more on their small value matrices.
    """

    layer: int = 0
    layers: int = 1
    experts: int = 0
    is_70b: bool = False

    @property
    def more_bits(self) -> bool:
        """The first and last eighth of the layers and every third between (use_more_bits there)."""
        eighth = self.layers // 8
        return self.layer < eighth or self.layer >= 7 * self.layers // 8 or (self.layer - eighth) % 3 == 2


def tensor_type(mix: str, role: str, columns: int, place: Place) -> GgmlType:
    """The type of a matrix with rows of ``columns``; ``role`` is its name in llama.cpp, such as attn_v.

    A table that is also the output head has the role "output".
    """
    name = _rule(mix, role, columns, place)
    kind = _BY_NAME[name]
    return _BY_NAME[_FALLBACKS[name]] if columns % kind.block_elements else kind


def _rule(mix: str, role: str, columns: int, place: Place) -> str:
    base = BASE_TYPES[mix]
    if base == "F16":
        return base
    if role == "output":
        return _output_type(base, columns)
    if mix == "MXFP4":
        return "MXFP4" if role.endswith("_exps") else base
    if role == "attn_v":
        return _value_type(mix, base, place)
    if role == "attn_k" and place.experts == 8:
        return "Q8_0"
    if role.startswith("ffn_down"):
        return _down_type(mix, base, place)
    if role == "attn_output" and mix in ("Q3_K_M", "Q4_K_M"):
        return "Q5_K" if place.experts == 8 else "Q4_K"
    if role == "attn_qkv":
        return {"Q3_K_M": "Q4_K", "Q4_K_M": "Q5_K", "Q5_K_M": "Q6_K"}.get(mix, base)
    return base


def _output_type(base: str, columns: int) -> str:
    return "Q8_0" if base == "Q8_0" or columns % _BY_NAME[base].block_elements else "Q6_K"


def _value_type(mix: str, base: str, place: Place) -> str:
    if place.experts == 8:
        return "Q8_0"
    if mix == "Q3_K_M":
        base = "Q5_K" if place.layer < 2 else "Q4_K"
    elif mix in ("Q4_K_M", "Q5_K_M") and place.more_bits:
        base = "Q6_K"
    return "Q5_K" if place.is_70b and base in ("Q3_K", "Q4_K") else base


def _down_type(mix: str, base: str, place: Place) -> str:
    if mix == "Q3_K_M":
        return "Q5_K" if place.layer < place.layers // 16 else "Q4_K"
    return "Q6_K" if mix in ("Q4_K_M", "Q5_K_M") and place.more_bits else base
