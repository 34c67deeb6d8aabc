"""GGUF headers -> ModelShape: which tensors a token reads, and what each layer keeps.

Owns the tensor names and metadata keys of llama.cpp. Does not open files, and takes
nothing from an architecture's name that the tensors of a layer tell themselves.

Names and keys: gguf-py/gguf/constants.py of llama.cpp. Window patterns: the
load_hparams of each architecture in src/llama-model.cpp, set_swa_pattern there.
State sizes: llama_hparams::n_embd_r and n_embd_s in src/llama-hparams.cpp.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from bandwidth_model.attention import Attention
from bandwidth_model.errors import HeaderError
from bandwidth_model.gguf import ArrayInfo, GgufHeader, TensorInfo
from bandwidth_model.shape import LayerShape, ModelShape

MAX_LAYERS = 2048  # our own limit; the deepest model in the wild has 256
STATE_ELEMENT_BYTES = 4  # llama.cpp keeps recurrent states as F32

# Of these tables a token takes one row.
ROW_TABLES = {"token_embd", "per_layer_token_embd", "position_embd", "token_types"}
# Encoders run once for an input, not for each token.
NOT_READ = ("enc.", "v.", "a.", "mm.", "resampler.")

# Every n-th layer is full, the others slide; where no pattern stands in the file.
WINDOW_PERIODS = {
    "gemma2": 2,
    "gemma3": 6,
    "gemma3n": 5,
    "gemma-embedding": 6,
    "gpt-oss": 2,
    "cohere2": 4,
    "llama4": 4,
    "olmo2": 4,
    "exaone4": 4,
    "exaone-moe": 4,
    "afmoe": 4,
    "smallthinker": 4,
    "plamo3": 8,
}
FULL_LAYER_FIRST = {"smallthinker"}
DEFAULT_WINDOWS = {"gemma2": 4096, "smallthinker": 4096, "llama4": 8192}
KV_LAYERS = {"gemma3n": 20}  # n_layer_kv_from_start: later layers read the caches of earlier ones


def shape_of_gguf(parts: Sequence[GgufHeader], name: str = "") -> ModelShape:
    """The shape of a model; ``parts`` are the headers of all files of a split one, in order."""
    if not parts:
        raise HeaderError("a model consists of at least one file")
    keys = _Keys(parts[0])
    tensors = [tensor for part in parts for tensor in part.tensors]
    by_layer, outside = _grouped(tensors)
    read = len(by_layer) - keys.whole("nextn_predict_layers", 0)
    layers = tuple(_layer(keys, index, each, index < read) for index, each in by_layer.items())
    routed = [each for tensors in by_layer.values() for each in tensors if _is_routed(each)]
    return ModelShape(
        name=name or keys.header.name or keys.architecture or "model",
        architecture=keys.architecture,
        quantization=keys.header.quantization,
        layers=layers,
        head=_head(outside),
        parameters=sum(tensor.elements for tensor in tensors),
        file_bytes=sum(part.file_bytes_expected for part in parts),
        hidden_size=keys.whole("embedding_length", 0),
        vocabulary_size=keys.header.vocabulary_size or _rows(outside, "token_embd"),
        context_length=keys.header.context_length,
        expert_bytes=sum(tensor.nbytes for tensor in routed),
        experts_share=_experts_share(keys),
    )


class _Keys:
    """The metadata of one architecture, with layer-wise arrays spread out."""

    def __init__(self, header: GgufHeader) -> None:
        self.header = header
        self.architecture = header.architecture or ""

    def whole(self, key: str, default: int, layer: int = 0) -> int:
        """A non-negative number under the architecture's ``key``, of ``layer`` where it is an array."""
        value = self.header.metadata.get(f"{self.architecture}.{key}")
        if isinstance(value, ArrayInfo):
            value = value.value[layer] if value.value and layer < len(value.value) else None
        return int(value) if isinstance(value, int) and 0 <= value < 2**32 else default

    def array(self, key: str) -> tuple[bool | int | float, ...] | None:
        value = self.header.metadata.get(f"{self.architecture}.{key}")
        return value.value if isinstance(value, ArrayInfo) and value.value else None


def _is_routed(tensor: TensorInfo) -> bool:
    """Whether it holds experts of which a token uses some; all tokens use the shared ones (_shexp)."""
    name = tensor.name.split(".")
    return name[2].endswith(("_exps", "_chexps")) or (len(name) == 5 and name[3].isdigit())


def _experts_share(keys: _Keys) -> float:
    used, count = keys.whole("expert_used_count", 0), keys.whole("expert_count", 0)
    return min(1.0, used / count) if used and count else 1.0


def _grouped(tensors: Sequence[TensorInfo]) -> tuple[dict[int, list[TensorInfo]], list[TensorInfo]]:
    """Tensors by layer, a list for every layer up to the last, and those outside of layers."""
    by_layer: defaultdict[int, list[TensorInfo]] = defaultdict(list)
    outside: list[TensorInfo] = []
    for tensor in tensors:
        prefix, _, rest = tensor.name.partition(".")
        number, _, stem = rest.partition(".")
        if prefix != "blk" or not number.isascii() or not number.isdigit() or not stem:
            outside.append(tensor)
            continue
        if len(number) > 4 or int(number) >= MAX_LAYERS:
            raise HeaderError(f"the tensor {tensor.name!r} claims more than {MAX_LAYERS} layers")
        by_layer[int(number)].append(tensor)
    return {index: by_layer[index] for index in range(max(by_layer, default=-1) + 1)}, outside


def _layer(keys: _Keys, index: int, tensors: list[TensorInfo], read: bool) -> LayerShape:
    """A layer's shape. ``read`` False: it predicts further tokens ahead and llama.cpp skips it."""
    nbytes: defaultdict[str, float] = defaultdict(float)
    active = 0.0
    for tensor in tensors if read else ():
        share = _experts_share(keys) if _is_routed(tensor) else 1.0
        nbytes[tensor.ggml_type.name] += tensor.nbytes * share
        active += tensor.elements * share
    stems = {tensor.name.split(".")[2] for tensor in tensors}
    return LayerShape(
        read_bytes=dict(nbytes),
        weight_bytes=sum(tensor.nbytes for tensor in tensors),
        active_parameters=round(active),
        attention=_attention(keys, index, stems) if read else None,
        state_bytes=_state_bytes(keys, index, stems) if read else 0,
    )


def _head(tensors: list[TensorInfo]) -> LayerShape:
    tied = not any(tensor.name == "output.weight" for tensor in tensors)
    nbytes: defaultdict[str, float] = defaultdict(float)
    active = 0.0
    for tensor, share in _head_shares(tensors, tied):
        nbytes[tensor.ggml_type.name] += tensor.nbytes * share
        active += tensor.elements * share
    return LayerShape(dict(nbytes), sum(tensor.nbytes for tensor in tensors), round(active))


def _head_shares(tensors: list[TensorInfo], tied: bool) -> Iterator[tuple[TensorInfo, float]]:
    for tensor in tensors:
        stem = tensor.name.partition(".")[0]
        if tensor.name.startswith(NOT_READ):
            continue
        one_row = stem in ROW_TABLES and not (stem == "token_embd" and tied)
        yield tensor, 1 / max(1, tensor.shape[1]) if one_row and len(tensor.shape) > 1 else 1.0


def _rows(tensors: list[TensorInfo], stem: str) -> int:
    shapes = [tensor.shape for tensor in tensors if tensor.name == f"{stem}.weight"]
    return shapes[0][1] if shapes and len(shapes[0]) > 1 else 0


def _attention(keys: _Keys, index: int, stems: set[str]) -> Attention | None:
    recurrent = any(stem.startswith("ssm_") for stem in stems)
    projected = stems & {"attn_q", "attn_k", "attn_kv_a_mqa", "attn_k_b"}
    if not projected and not ("attn_qkv" in stems and not recurrent):
        return None
    heads = max(1, keys.whole("attention.head_count", 1, index))
    window = _window(keys, index)
    width = keys.whole("embedding_length", 0) // heads
    key, value = _lengths(keys, width, sliding=window is not None)
    if "attn_k_b" in stems and (rank := keys.whole("attention.kv_lora_rank", 0)):
        rope = keys.whole("rope.dimension_count", 0)
        return Attention(heads, 1, rank + rope, rank, window, latent=True)
    kv_heads = keys.whole("attention.head_count_kv", heads, index) or heads
    return Attention(heads, kv_heads, key, value, window, stores=index < _kv_layers(keys))


def _lengths(keys: _Keys, width: int, sliding: bool) -> tuple[int, int]:
    key = keys.whole("attention.key_length", width)
    value = keys.whole("attention.value_length", width)
    if sliding:
        key = keys.whole("attention.key_length_swa", key)
        value = keys.whole("attention.value_length_swa", value)
    return key, value


def _kv_layers(keys: _Keys) -> int:
    shared = keys.whole("attention.shared_kv_layers", 0)
    if shared:
        return max(0, keys.whole("block_count", MAX_LAYERS) - shared)
    return KV_LAYERS.get(keys.architecture, MAX_LAYERS)


def _window(keys: _Keys, index: int) -> int | None:
    """The window of a layer; None where it sees everything, as far as llama.cpp implements windows."""
    window = keys.whole("attention.sliding_window", DEFAULT_WINDOWS.get(keys.architecture, 0))
    pattern = keys.array("attention.sliding_window_pattern")
    if not window:
        return None
    if pattern is not None:
        return window if pattern[index % len(pattern)] else None
    default = WINDOW_PERIODS.get(keys.architecture)
    period = keys.whole("attention.sliding_window_pattern", -1 if default is None else default)
    if period < 0:
        return None
    if period == 0:
        return window
    full = index % period == (0 if keys.architecture in FULL_LAYER_FIRST else period - 1)
    return None if full else window


def _state_bytes(keys: _Keys, index: int, stems: set[str]) -> int:
    width = keys.whole("embedding_length", 0)
    if any(stem.startswith("time_mix") for stem in stems):
        shifts = keys.whole("token_shift_count", 2)
        return STATE_ELEMENT_BYTES * width * (shifts + keys.whole("wkv.head_size", 0))
    if any(stem.startswith("shortconv") for stem in stems):
        return STATE_ELEMENT_BYTES * width * max(0, keys.whole("shortconv.l_cache", 1) - 1)
    if not any(stem.startswith("ssm_") for stem in stems):
        return 0
    if kda := keys.whole("kda.head_dim", 0):
        heads = keys.whole("attention.head_count", 1, index)
        return STATE_ELEMENT_BYTES * heads * kda * (kda + 3 * max(0, keys.whole("ssm.conv_kernel", 1) - 1))
    inner, state = keys.whole("ssm.inner_size", 0), keys.whole("ssm.state_size", 0)
    kernel = max(0, keys.whole("ssm.conv_kernel", 1) - 1)
    convolved = inner + 2 * keys.whole("ssm.group_count", 0) * state
    return STATE_ELEMENT_BYTES * (kernel * convolved + inner * state)
