"""Model files for tests of prediction: a small llama with all its tensors, whole, split, or as MLC."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from bandwidth_model.gguf import GGML_TYPES
from tests.bandwidth_model.tiny_gguf import Tensor, gguf_bytes

HIDDEN, LAYERS, HEADS, KV_HEADS, WIDE, VOCABULARY = 64, 4, 2, 1, 128, 512
CONTEXT = 4096
NAMES = {kind.name: number for number, kind in GGML_TYPES.items()}

METADATA: Mapping[str, object] = {
    "general.architecture": "llama",
    "general.name": "Small",
    "general.file_type": 7,
    "llama.context_length": CONTEXT,
    "llama.embedding_length": HIDDEN,
    "llama.block_count": LAYERS,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
}


def tensor(name: str, shape: tuple[int, ...], kind: str) -> Tensor:
    block = GGML_TYPES[NAMES[kind]]
    elements = 1
    for size in shape:
        elements *= size
    return (name, shape, NAMES[kind], elements // block.block_elements * block.type_bytes)


def layer(index: int) -> Iterator[Tensor]:
    kv_width = HIDDEN // HEADS * KV_HEADS
    for stem, rows in (("attn_q", HIDDEN), ("attn_k", kv_width), ("attn_v", kv_width), ("ffn_up", WIDE)):
        yield tensor(f"blk.{index}.{stem}.weight", (HIDDEN, rows), "Q8_0")
    yield tensor(f"blk.{index}.ffn_down.weight", (WIDE, HIDDEN), "Q8_0")


def small_gguf(words: int = VOCABULARY) -> bytes:
    """The whole model; more ``words`` make a longer header and nothing else."""
    table = tensor("token_embd.weight", (HIDDEN, VOCABULARY), "Q8_0")
    layers = [each for index in range(LAYERS) for each in layer(index)]
    return gguf_bytes(
        {**METADATA, "tokenizer.ggml.tokens": [f"word{n}" for n in range(words)]}, [table, *layers]
    )


def split_gguf(parts: int = 2) -> list[bytes]:
    """The same model in several files, a share of the layers in each; the first also has the table."""
    tensors = [[tensor("token_embd.weight", (HIDDEN, VOCABULARY), "Q8_0")], *[[] for _ in range(parts - 1)]]
    for index in range(LAYERS):
        tensors[index * parts // LAYERS].extend(layer(index))
    return [
        gguf_bytes({**(METADATA if number == 0 else {}), "split.no": number, "split.count": parts}, share)
        for number, share in enumerate(tensors)
    ]


def part_name(stem: str, number: int, count: int) -> str:
    return f"{stem}-{number:05}-of-{count:05}.gguf"


def mlc_folder(place: Path) -> Path:
    """A model as mlc-llm compiles it, without its shards."""
    place.mkdir()
    model = {"hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1, "vocab_size": 512}
    chat = {
        "model_type": "llama",
        "quantization": "q4f16_1",
        "model_config": model,
        "context_window_size": 2048,
    }
    records = [
        {"name": name, "shape": [512, 8], "dtype": "uint32", "nbytes": 16_384}
        for name in ("model.embed_tokens.q_weight", "lm_head.q_weight", "model.layers.0.mlp.q_weight")
    ]
    (place / "mlc-chat-config.json").write_text(json.dumps(chat))
    (place / "tensor-cache.json").write_text(json.dumps({"records": [{"records": records}]}))
    return place
