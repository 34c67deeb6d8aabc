"""The storage types of ggml: how many bytes a block of elements takes, and what files call the mix.

Owns the two tables; knows nothing of headers or files.
"""

from __future__ import annotations

from typing import NamedTuple


class GgmlType(NamedTuple):
    """``type_bytes`` hold ``block_elements`` consecutive elements of a row."""

    name: str
    block_elements: int
    type_bytes: int


# Numbers: enum ggml_type in ggml/include/ggml.h of llama.cpp. Sizes: the block_* structs in
# ggml/src/ggml-common.h. Numbers that are missing here (4, 5, 31-33, 36-38) were withdrawn.
GGML_TYPES = {
    0: GgmlType("F32", 1, 4),
    1: GgmlType("F16", 1, 2),
    2: GgmlType("Q4_0", 32, 18),
    3: GgmlType("Q4_1", 32, 20),
    6: GgmlType("Q5_0", 32, 22),
    7: GgmlType("Q5_1", 32, 24),
    8: GgmlType("Q8_0", 32, 34),
    9: GgmlType("Q8_1", 32, 40),
    10: GgmlType("Q2_K", 256, 84),
    11: GgmlType("Q3_K", 256, 110),
    12: GgmlType("Q4_K", 256, 144),
    13: GgmlType("Q5_K", 256, 176),
    14: GgmlType("Q6_K", 256, 210),
    15: GgmlType("Q8_K", 256, 292),
    16: GgmlType("IQ2_XXS", 256, 66),
    17: GgmlType("IQ2_XS", 256, 74),
    18: GgmlType("IQ3_XXS", 256, 98),
    19: GgmlType("IQ1_S", 256, 50),
    20: GgmlType("IQ4_NL", 32, 18),
    21: GgmlType("IQ3_S", 256, 110),
    22: GgmlType("IQ2_S", 256, 82),
    23: GgmlType("IQ4_XS", 256, 136),
    24: GgmlType("I8", 1, 1),
    25: GgmlType("I16", 1, 2),
    26: GgmlType("I32", 1, 4),
    27: GgmlType("I64", 1, 8),
    28: GgmlType("F64", 1, 8),
    29: GgmlType("IQ1_M", 256, 56),
    30: GgmlType("BF16", 1, 2),
    34: GgmlType("TQ1_0", 256, 54),
    35: GgmlType("TQ2_0", 256, 66),
    39: GgmlType("MXFP4", 32, 17),
    40: GgmlType("NVFP4", 64, 36),
    41: GgmlType("Q1_0", 128, 18),
}

# general.file_type: enum llama_ftype in include/llama.h of llama.cpp. A label of the mix as a
# whole; what is read for a token follows from the tensors, never from this.
# A dash is a number that was withdrawn.
_FILE_TYPE_NAMES = (
    "F32 F16 Q4_0 Q4_1 - - - Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K "
    "IQ2_XXS IQ2_XS Q2_K_S IQ3_XS IQ3_XXS IQ1_S IQ4_NL IQ3_S IQ3_M IQ2_S IQ2_M IQ4_XS IQ1_M BF16 - - - "
    "TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0"
)
FILE_TYPES = {number: name for number, name in enumerate(_FILE_TYPE_NAMES.split()) if name != "-"}

# LLAMA_FTYPE_GUESSED, likewise: set beside the type where no file said it.
FILE_TYPE_GUESSED = 1024


_BY_NAME = {kind.name: kind for kind in GGML_TYPES.values()}


def element_bytes(name: str) -> float:
    """Bytes of one stored element; 1.0 for a type that ggml does not have."""
    kind = _BY_NAME.get(name)
    return kind.type_bytes / kind.block_elements if kind else 1.0
