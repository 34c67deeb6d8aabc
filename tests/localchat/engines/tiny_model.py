"""A llama of 100 kB with random weights that the real library loads in milliseconds.

Its tokens are bytes and a few control tokens. What it says is noise, but noise
that depends on everything before it.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from tests.localchat.engines.templates import CHATML

CONTEXT, WIDTH, HIDDEN, HEADS, KV_HEADS, LAYERS = 8192, 64, 128, 2, 1, 2
CONTROL, NORMAL = gguf.TokenType.CONTROL, gguf.TokenType.NORMAL
CONTROLS = ("<s>", "<|im_start|>", "<|im_end|>")


def byte_tokens() -> list[str]:
    """The 256 bytes as GPT-2 writes them: printable ones as they are, others from U+0100 on."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in plain else chr(next(others)) for byte in range(256)]


def write_tiny_model(
    path: Path,
    template: str | None = CHATML,
    controls: tuple[str, ...] = CONTROLS,
    kind: gguf.TokenType = CONTROL,
    *,
    weights: bool = True,
    seed: int = 0,
) -> Path:
    tokens = byte_tokens() + list(controls)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("Tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([NORMAL] * 256 + [kind] * len(controls))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(258)
    writer.add_add_bos_token(False)
    if template is not None:
        writer.add_chat_template(template)
    if weights:
        for name, shape in _tensors(len(tokens)):
            writer.add_tensor(name, _values(name, shape, np.random.default_rng([seed, len(name), *shape])))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    if weights:
        writer.write_tensors_to_file()
    writer.close()
    return path


def _tensors(vocabulary: int) -> list[tuple[str, tuple[int, ...]]]:
    kv = WIDTH // HEADS * KV_HEADS
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("token_embd.weight", (vocabulary, WIDTH)),
        ("output_norm.weight", (WIDTH,)),
        ("output.weight", (vocabulary, WIDTH)),
    ]
    for n in range(LAYERS):
        shapes += [
            (f"blk.{n}.attn_norm.weight", (WIDTH,)),
            (f"blk.{n}.attn_q.weight", (WIDTH, WIDTH)),
            (f"blk.{n}.attn_k.weight", (kv, WIDTH)),
            (f"blk.{n}.attn_v.weight", (kv, WIDTH)),
            (f"blk.{n}.attn_output.weight", (WIDTH, WIDTH)),
            (f"blk.{n}.ffn_norm.weight", (WIDTH,)),
            (f"blk.{n}.ffn_gate.weight", (HIDDEN, WIDTH)),
            (f"blk.{n}.ffn_up.weight", (HIDDEN, WIDTH)),
            (f"blk.{n}.ffn_down.weight", (WIDTH, HIDDEN)),
        ]
    return shapes


def _values(name: str, shape: tuple[int, ...], random: np.random.Generator) -> npt.NDArray[np.float32]:
    if len(shape) == 1:
        return np.ones(shape, np.float32)
    spread = 3.0 if name.startswith("output") else 1.0  # rows with a clear likeliest token
    values: npt.NDArray[np.float64] = random.normal(0, spread / shape[1] ** 0.5, shape)
    return values.astype(np.float32)
