"""Laws of MLC model directories: exact sums on a real layout, one line for whatever is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.errors import HeaderError
from bandwidth_model.mlc import CONFIG_NAME, MAX_JSON_BYTES, dtype_bits, parse_mlc
from bandwidth_model.mlc_shape import shape_of_mlc
from bandwidth_model.reading import read_shape
from bandwidth_model.shape import ModelShape

Json = dict[str, object]

# SmolLM2-135M-Instruct as mlc-llm compiles it to q4f32_1: sizes of a real index.
MODEL: Json = {
    "hidden_size": 576,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "head_dim": 64,
    "num_hidden_layers": 30,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}
LAYER = {
    "mlp.down_proj": (576, 1536),
    "mlp.gate_up_proj": (3072, 576),
    "self_attn.qkv_proj": (960, 576),
    "self_attn.o_proj": (576, 576),
}


def record(name: str, shape: tuple[int, ...], dtype: str, stored: int) -> Json:
    return {"name": name, "shape": list(shape), "dtype": dtype, "nbytes": stored, "format": "f32-to-bf16"}


def quantised(name: str, rows: int, columns: int) -> list[Json]:
    """Eight weights to a word, one scale for 32 of them, which lies on disk in half its bytes."""
    return [
        record(f"{name}.q_weight", (rows, columns // 8), "uint32", rows * columns // 2),
        record(f"{name}.q_scale", (rows, columns // 32), "float32", rows * columns // 16),
    ]


def norm(name: str) -> Json:
    return record(name, (576,), "float32", 1152)


def index() -> Json:
    records = [*quantised("model.embed_tokens", 49152, 576), norm("model.norm.weight")]
    for number in range(30):
        prefix = f"model.layers.{number}."
        for name, (rows, columns) in LAYER.items():
            records += quantised(prefix + name, rows, columns)
        records += [norm(prefix + "input_layernorm.weight"), norm(prefix + "post_attention_layernorm.weight")]
    return {"metadata": {}, "records": [{"dataPath": "params_shard_0.bin", "records": records}]}


def config(**changes: object) -> Json:
    chat: Json = {
        "model_type": "llama",
        "quantization": "q4f32_1",
        "model_config": MODEL,
        "context_window_size": 1024,
        "sliding_window_size": -1,
    }
    return chat | changes


def shape_of(chat: Json, tensors: Json | None = None) -> ModelShape:
    return shape_of_mlc(parse_mlc(json.dumps(chat).encode(), json.dumps(tensors or index()).encode()))


def one(*records: Json) -> Json:
    return {"records": [{"records": list(records)}]}


class TestARealLayout:
    def test_parameters_and_bytes(self) -> None:
        shape = shape_of(config())
        assert shape.parameters == shape.active_parameters == 134_515_008
        assert shape.weight_bytes == shape.bytes_per_token == 84_190_464  # the index says so too
        assert shape.bytes_by_quantization == {"q4f32_1": 84_190_464}
        assert shape.file_bytes < shape.weight_bytes  # scales lie on disk as bf16
        assert (len(shape.layers), shape.context_length, shape.vocabulary_size) == (30, 1024, 49152)

    def test_the_cache_has_the_type_of_the_activations(self) -> None:
        wide, narrow = shape_of(config()), shape_of(config(quantization="q4f16_1"))
        assert (wide.kv_type, narrow.kv_type) == ("F32", "F16")
        assert wide.kv_bytes_per_token() == 2 * narrow.kv_bytes_per_token() == 2 * 30 * 3 * 64 * 4

    @pytest.mark.parametrize("name", ["tensor-cache.json", "ndarray-cache.json"])
    def test_from_a_directory(self, tmp_path: Path, name: str) -> None:
        folder = tmp_path / "SmolLM2-q4f32_1-MLC"
        folder.mkdir()
        (folder / CONFIG_NAME).write_text(json.dumps(config()))
        (folder / name).write_text(json.dumps(index()))
        shape = read_shape(folder)
        assert shape.name == folder.name
        assert shape.weight_bytes == 84_190_464


class TestKinds:
    def test_an_untied_table_by_one_row(self) -> None:
        tensors = one(
            record("model.embed_tokens.weight", (100, 64), "float16", 12_800),
            record("lm_head.weight", (100, 64), "float16", 12_800),
        )
        untied = shape_of(
            config(quantization="q0f16", model_config=MODEL | {"tie_word_embeddings": False}), tensors
        )
        assert untied.bytes_per_token == 12_800 + 128
        assert untied.weight_bytes == 25_600

    def test_the_active_experts(self) -> None:
        model = MODEL | {"num_local_experts": 8, "num_experts_per_tok": 2}
        tensors = one(record("model.layers.0.moe.e1_e3.q_weight", (8, 64, 8), "uint32", 16_384))
        shape = shape_of(config(model_config=model), tensors)
        assert shape.bytes_per_token == 16_384 / 4
        assert shape.parameters == 4 * shape.active_parameters == 8 * 64 * 64

    def test_a_window_on_all_layers_or_in_a_pattern(self) -> None:
        every = shape_of(config(sliding_window_size=8))
        assert every.kv_read_bytes(1000) == every.kv_read_bytes(8)
        pattern = shape_of(config(sliding_window_size=8, model_config=MODEL | {"sliding_window_pattern": 6}))
        full = [each.attention for each in pattern.layers if each.attention and each.attention.window is None]
        assert len(full) == 5

    def test_latent_and_recurrent(self) -> None:
        latent = shape_of(config(model_config=MODEL | {"kv_lora_rank": 512, "qk_rope_head_dim": 64}))
        assert latent.kv_bytes_per_token("F16") == 30 * 576 * 2
        recurrent = shape_of(config(model_config={"hidden_size": 576}))
        assert recurrent.kv_bytes(1000) == 0

    def test_a_language_model_inside_one_that_sees(self) -> None:
        nested = shape_of(config(model_config={"text_config": MODEL, "vision_config": {}}))
        assert nested.kv_bytes(10) == shape_of(config()).kv_bytes(10)

    @pytest.mark.parametrize(
        ("dtype", "bits"),
        [("float16", 16), ("bfloat16", 16), ("uint32", 32), ("int8", 8), ("e4m3_float8", 8), ("float64", 64)],
    )
    def test_data_types(self, dtype: str, bits: int) -> None:
        assert dtype_bits(dtype) == bits


class TestRefuses:
    @pytest.mark.parametrize(
        ("chat", "tensors", "message"),
        [
            (b"{", b"{}", "mlc-chat-config.json is no JSON"),
            (b"\xff", b"{}", "mlc-chat-config.json is no JSON"),
            (b"[" * 10**5, b"{}", "is no JSON"),
            (b"[]", b"{}", "mlc-chat-config.json is no JSON object"),
            (b"{}", b"{}", "model_config of mlc-chat-config.json is no JSON object"),
            (b'{"model_config": {}, "model_type": 7}', b"{}", "model_type"),
            (b'{"model_config": {}, "model_type": "a\\nb"}', b"{}", "is no name"),
            (None, b"{}", "records is no JSON list"),
            (None, b'{"records": []}', "names no parameters"),
            (None, b'{"records": [7]}', "a shard is no JSON object"),
            (None, json.dumps(one({"name": "a"})).encode(), "the shape of a is no JSON list"),
            (None, json.dumps(one(record("a", (-1,), "int8", 1))).encode(), "a dimension of a is no size"),
            (None, json.dumps(one(record("a", (1,), "blob", 1))).encode(), "'blob' is unknown"),
            (None, json.dumps(one(record("a", (1,) * 9, "int8", 1))).encode(), "'a' is too large"),
            (None, json.dumps(one(record("a", (2**40, 2**40), "int8", 1))).encode(), "'a' is too large"),
            (None, json.dumps(one(record("a", (1,), "int8", -1))).encode(), "nbytes of a is no size"),
            (None, json.dumps(one(norm("a"), norm("a"))).encode(), "names a parameter twice"),
            (None, json.dumps(one(norm("model.layers.9999.a"))).encode(), "more than 2048 layers"),
        ],
    )
    def test_with_one_line(self, chat: bytes | None, tensors: bytes, message: str) -> None:
        with pytest.raises(HeaderError) as caught:
            shape_of_mlc(parse_mlc(json.dumps(config()).encode() if chat is None else chat, tensors))
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda folder: (folder / "tensor-cache.json").unlink(), "has neither tensor-cache.json nor"),
            (lambda folder: (folder / CONFIG_NAME).write_bytes(b"7"), "is no JSON object"),
        ],
    )
    def test_a_broken_directory(self, tmp_path: Path, spoil: Callable[[Path], object], message: str) -> None:
        (tmp_path / CONFIG_NAME).write_text(json.dumps(config()))
        (tmp_path / "tensor-cache.json").write_text(json.dumps(index()))
        spoil(tmp_path)
        with pytest.raises(HeaderError, match=message):
            read_shape(tmp_path)

    def test_a_file_without_end(self, tmp_path: Path) -> None:
        (tmp_path / CONFIG_NAME).write_text(json.dumps(config()))
        with (tmp_path / "tensor-cache.json").open("wb") as file:
            file.truncate(MAX_JSON_BYTES + 1)
        with pytest.raises(HeaderError, match="has more than 67,108,864 bytes"):
            read_shape(tmp_path)

    @given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner)))
    def test_or_reads_any_values(self, value: object) -> None:
        for key in ("num_attention_heads", "head_dim", "num_local_experts", "sliding_window", "hidden_size"):
            try:
                shape = shape_of(config(model_config=MODEL | {key: value}), one(norm("model.layers.0.a")))
            except HeaderError:
                continue
            assert shape.kv_bytes(10) >= 0
