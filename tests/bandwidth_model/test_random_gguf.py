"""Files of random weights: what their headers promise, readable by others, finite everywhere."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandwidth_model.random_gguf import WRITABLE, Geometry, write_random_gguf
from bandwidth_model.reading import read_shape

SMALL = Geometry(layers=1, hidden=256, feed_forward=512, heads=4, kv_heads=2, vocabulary=64)


@pytest.mark.parametrize("quantization", WRITABLE)
def test_its_weights_are_as_small_and_as_even_as_trained_ones(tmp_path: Path, quantization: str) -> None:
    write_random_gguf(tmp_path / "m.gguf", SMALL, quantization)
    reader = gguf.GGUFReader(tmp_path / "m.gguf")
    (tensor,) = (each for each in reader.tensors if each.name == "blk.0.ffn_up.weight")
    values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    assert tensor.tensor_type.name == quantization
    assert np.isfinite(values).all()
    assert abs(values.mean()) < 0.005
    assert 0.005 < values.std() < 0.06


geometries = st.builds(
    Geometry,
    layers=st.integers(1, 3),
    hidden=st.sampled_from([256, 512]),
    feed_forward=st.sampled_from([256, 768]),
    heads=st.sampled_from([4, 8]),
    kv_heads=st.sampled_from([1, 2, 4]),
    vocabulary=st.integers(1, 300),
    context=st.integers(512, 8192),
)


@given(geometries, st.sampled_from(WRITABLE), st.sampled_from(WRITABLE))
@settings(max_examples=25, deadline=None)
def test_its_shape_is_what_was_asked_for(
    tmp_path_factory: pytest.TempPathFactory, geometry: Geometry, quantization: str, head: str
) -> None:
    path = tmp_path_factory.mktemp("random") / "m.gguf"
    write_random_gguf(path, geometry, quantization, head=head)
    shape = read_shape(path)
    attention = shape.layers[0].attention
    assert attention
    assert (len(shape.layers), shape.hidden_size) == (geometry.layers, geometry.hidden)
    assert (attention.heads, attention.kv_heads) == (geometry.heads, geometry.kv_heads)
    assert set(shape.bytes_by_quantization) == {quantization, head, "F32"}
    assert path.stat().st_size - shape.file_bytes < 32  # padding of the last tensor


def test_the_same_seed_gives_the_same_file(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_random_gguf(tmp_path / name, SMALL, "Q4_K", seed=seed)
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


@pytest.mark.parametrize(
    ("hidden", "quantization", "said"), [(288, "Q4_K", "whole blocks"), (256, "IQ2_XS", "these are: Q4_0")]
)
def test_what_cannot_be_written_is_refused(tmp_path: Path, hidden: int, quantization: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        write_random_gguf(tmp_path / "m.gguf", Geometry(1, hidden, 256, 4, 2), quantization)
