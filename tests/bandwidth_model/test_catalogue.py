"""The catalogue of models: shapes add up to the published checkpoints, mixes to published files."""

from __future__ import annotations

import pytest

from bandwidth_model.catalogue import KnownModel, find_known, known_models
from bandwidth_model.catalogue_shape import known_shape, shape_of_known
from bandwidth_model.mixes import BASE_TYPES, Place, tensor_type

GIB = 2**30

# Sizes in GiB of files that people ran, as llama-bench prints them: benchmarks/scoreboard.csv, each row there
# with its source. Qwen's own 0.5B and 1.5B files are left out: they keep a tied head twice.
PUBLISHED_FILES = [
    ("llama-2-7b", "Q4_0", 3.56),
    ("llama-2-7b", "Q8_0", 6.67),
    ("llama-2-7b", "F16", 12.55),
    ("llama-2-13b", "Q4_0", 6.86),
    ("llama-3.1-8b", "Q4_K_M", 4.58),
    ("llama-3.1-8b", "Q4_0", 4.35),
    ("llama-3.1-8b", "Q6_K", 6.14),
    ("llama-3.1-8b", "Q8_0", 7.95),
    ("llama-3.1-8b", "F16", 14.96),
    ("llama-3.3-70b", "Q4_K_M", 39.59),
    ("llama-3.3-70b", "F16", 131.42),
    ("llama-3.2-1b", "Q4_0", 0.7107),
    ("llama-3.2-1b", "F16", 2.3),
    ("llama-3.2-3b", "Q4_K_M", 1.87),
    ("tinyllama-1.1b", "Q4_K_M", 0.6213),
    ("tinyllama-1.1b", "Q4_0", 0.5931),
    ("qwen2.5-0.5b", "Q4_K_M", 0.3651),
    ("qwen2.5-1.5b", "Q4_K_M", 0.9127),
    ("qwen2.5-1.5b", "Q8_0", 1.53),
    ("qwen2.5-3b", "Q4_K_M", 1.7881),
    ("qwen2.5-7b", "Q8_0", 7.54),
    ("qwen2.5-14b", "Q4_K_M", 8.37),
    ("qwen2.5-32b", "Q4_K_M", 18.49),
    ("qwen3-30b-a3b", "Q8_0", 30.25),
    ("gpt-oss-20b", "MXFP4", 11.27),
    ("gpt-oss-120b", "MXFP4", 59.02),
]
SIZE_TOLERANCE = 0.005  # three digits are printed, and some mixes were made with an importance matrix


def known(name: str) -> KnownModel:
    found = find_known(name)
    assert found is not None
    return found


class TestTheTable:
    def test_has_about_40_models_each_once(self) -> None:
        names = [model.slug for model in known_models()]
        assert 40 <= len(names) == len(set(names))
        assert all(model.source for model in known_models())

    @pytest.mark.parametrize("model", known_models(), ids=lambda model: model.slug)
    def test_every_shape_adds_up_to_the_published_checkpoint(self, model: KnownModel) -> None:
        for mix in model.mixes:
            shape = shape_of_known(model, mix)
            assert shape.parameters == model.parameters
            assert len(shape.layers) == model.layers
            assert shape.active_parameters <= shape.parameters
            assert 0 < shape.bytes_per_token <= shape.weight_bytes == shape.file_bytes

    @pytest.mark.parametrize(("name", "mix", "gib"), PUBLISHED_FILES)
    def test_every_mix_is_as_large_as_published_files(self, name: str, mix: str, gib: float) -> None:
        size = shape_of_known(known(name), mix).file_bytes / GIB
        assert size == pytest.approx(gib, rel=SIZE_TOLERANCE)

    @pytest.mark.parametrize(
        ("name", "active"),
        [("qwen3-30b-a3b", 3.3e9), ("gpt-oss-20b", 3.6e9), ("gpt-oss-120b", 5.1e9), ("deepseek-v3", 37e9)],
    )
    def test_active_parameters_are_those_of_the_model_card(self, name: str, active: float) -> None:
        model = known(name)
        assert shape_of_known(model, model.mixes[0]).active_parameters == pytest.approx(active, rel=0.1)


class TestNames:
    def test_a_model_is_found_as_the_table_or_a_person_spells_it(self) -> None:
        assert known("llama 3.3 70b") is known(" Llama-3.3-70B") is known("Llama 3.3 70B")
        assert find_known("llama") is None

    def test_with_a_mix_or_its_usual_one(self) -> None:
        usual, named = known_shape("gpt-oss-20b"), known_shape("Qwen3 4B:q8_0")
        assert usual is not None
        assert named is not None
        assert (usual.quantization, named.quantization) == ("MXFP4", "Q8_0")
        assert named.name == "qwen3-4b:q8_0"
        assert known_shape("qwen3-4b:q9") is known_shape("qwen3-4b-gguf") is None


class TestCaches:
    def test_windows_close_and_latent_caches_are_small(self) -> None:
        gemma, oss = known_shape("gemma-3-27b"), known_shape("gpt-oss-20b")
        assert gemma is not None
        assert oss is not None
        full = [layer.attention for layer in gemma.layers if layer.attention and not layer.attention.window]
        assert len(full) == 10
        assert oss.kv_read_bytes(10_000) < 0.6 * oss.kv_bytes_per_token() * 10_000
        deepseek = known_shape("deepseek-v3")
        assert deepseek is not None
        assert deepseek.kv_bytes_per_token() == 61 * 576 * 2


class TestMixes:
    @pytest.mark.parametrize("mix", BASE_TYPES)
    def test_rows_of_any_width_get_a_type_whose_blocks_they_fill(self, mix: str) -> None:
        for role in ("attn_v", "attn_q", "ffn_down", "ffn_down_exps", "attn_output", "attn_qkv", "output"):
            for columns in (896, 2880, 4096):
                for layer in range(32):
                    for experts in (0, 8, 64):
                        kind = tensor_type(mix, role, columns, Place(layer, 32, experts))
                        assert columns % kind.block_elements == 0

    def test_the_rules_that_matter_most(self) -> None:
        first, middle = Place(0, 32), Place(4, 32)
        assert tensor_type("Q4_K_M", "ffn_down", 4096, first).name == "Q6_K"
        assert tensor_type("Q4_K_M", "ffn_down", 4096, middle).name == "Q4_K"
        assert tensor_type("Q4_K_M", "output", 4096, middle).name == "Q6_K"
        assert tensor_type("Q4_K_M", "output", 896, middle).name == "Q8_0"
        assert tensor_type("Q4_K_M", "attn_q", 896, middle).name == "Q5_0"
        assert tensor_type("Q4_K_M", "attn_v", 8192, Place(20, 80, is_70b=True)).name == "Q5_K"
        assert tensor_type("Q4_K_M", "attn_v", 4096, Place(4, 32, experts=8)).name == "Q8_0"
        assert tensor_type("Q3_K_M", "attn_v", 4096, first).name == "Q5_K"
