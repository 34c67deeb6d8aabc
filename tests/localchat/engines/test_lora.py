"""A LoRA adapter changes what the model says, in proportion to its scale."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from localchat.engines.llama_cpp import LlamaRuntime
from localchat.engines.protocol import LoadOptions
from localchat.engines.runtime import LoadFailed
from localchat.weights import Catalog

WIDTH, HIDDEN, RANK = 576, 1536, 4  # of SmolLM2-135M


def write_adapter(path: Path, architecture: str = "llama") -> Path:
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
    writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, 8.0)
    noise = np.random.default_rng(1)
    for name, into, out in (("ffn_down", HIDDEN, WIDTH), ("ffn_up", WIDTH, HIDDEN)):
        writer.add_tensor(
            f"blk.3.{name}.weight.lora_a", noise.normal(0, 0.2, (RANK, into)).astype(np.float32)
        )
        writer.add_tensor(f"blk.3.{name}.weight.lora_b", noise.normal(0, 0.2, (out, RANK)).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def logits(path: Path, lora: Path | None = None, scale: float = 1.0) -> np.ndarray:
    options = LoadOptions(str(path), ctx=256, lora=str(lora or ""), lora_scale=scale)
    runtime = LlamaRuntime(options, lambda _: True)
    try:
        runtime.eval(runtime.tokenize("The capital of France is", special=False, start=True))
        return runtime.logits().copy()
    finally:
        runtime.close()


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    return Catalog(models=tmp_path, cache=tmp_path).find("default").path


@pytest.mark.real_model
def test_the_adapter_is_applied_in_proportion_to_its_scale(weights: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "lora.gguf")
    plain = logits(weights)
    assert np.allclose(logits(weights, adapter, 0.0), plain, atol=1e-3)
    weak, strong = (np.abs(logits(weights, adapter, scale) - plain).max() for scale in (0.05, 1.0))
    assert 1e-3 < weak < strong


@pytest.mark.real_model
def test_an_adapter_for_another_architecture_is_refused_by_name(weights: Path, tmp_path: Path) -> None:
    adapter = write_adapter(tmp_path / "other.gguf", architecture="gemma3")
    with pytest.raises(LoadFailed, match=r"other\.gguf"):
        logits(weights, adapter)
