"""GPUs and models by the names that people and folders of profiles use."""

from __future__ import annotations

import pytest

from router.errors import InvalidSimulation
from router.simcloud.gpu import find_gpu
from router.simcloud.llm import find_llm


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a100", "A100 80GB SXM"),
        ("RTX4090", "RTX 4090"),
        ("RTX 4090", "RTX 4090"),
        ("RTXPRO6000", "RTX PRO 6000 Blackwell"),
        ("rtx5090", "RTX 5090"),
    ],
)
def test_a_gpu_is_found_however_its_name_is_spaced(written: str, meant: str) -> None:
    assert find_gpu(written).device.name == meant


@pytest.mark.parametrize("written", ["rtx", "", "a100-80gb", "tpu v9"])
def test_a_name_that_means_several_or_none_is_refused(written: str) -> None:
    with pytest.raises(InvalidSimulation):
        find_gpu(written)


def test_weights_and_kv_of_models_whose_heads_are_wider_than_their_share() -> None:
    """As on their cards: 8.03 and 32.8 billion parameters; 128 and 256 KiB of keys and values a token."""
    assert find_llm("llama-3-8b").weight_bytes == pytest.approx(2 * 8.03e9, rel=1e-3)
    assert find_llm("qwen3-32b").weight_bytes == pytest.approx(2 * 32.8e9, rel=2e-3)
    assert find_llm("llama-3-8b").kv_bytes_per_token == 128 * 1024
    assert find_llm("qwen3-32b").kv_bytes_per_token == 256 * 1024
