"""Held-out models are drawn, not chosen: a seed gives them, and any seed gives models that can be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.random_gguf import write_random_gguf
from bandwidth_model.reading import read_shape
from benchmarks.held_out import COUNT, QUANTIZATIONS, STEP, held_out


@given(st.integers(0, 2**32))
def test_a_seed_gives_models_of_all_sizes_and_quantisations(seed: int) -> None:
    models = held_out(seed)
    assert models == held_out(seed)
    assert len(models) == COUNT
    assert {each.quantization for each in models} == set(QUANTIZATIONS)
    for each in models:
        shape = each.geometry
        assert shape.heads % shape.kv_heads == 0
        rows = (shape.hidden, shape.feed_forward, shape.heads * shape.head_length)
        assert all(width % STEP == 0 for width in rows)
        assert 4 <= shape.layers <= 128


def test_what_is_drawn_can_be_written(tmp_path: Path) -> None:
    smallest = held_out(7)[0]
    path = tmp_path / "m.gguf"
    write_random_gguf(path, smallest.geometry, smallest.quantization, head=smallest.head)
    told = 1e9 * float(smallest.name.partition("B")[0])
    assert read_shape(path).parameters == pytest.approx(told, rel=0.05)
