"""Laws of the memory verdict: exact sums, monotone, and advice that works when it is followed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.attention import Attention
from bandwidth_model.memory import MIXES, SMALLEST_CONTEXT, needs, placed_layers, verdict
from bandwidth_model.shape import LayerShape, ModelShape, plain_shape

GB = 10**9
LLAMA_8B = replace(
    plain_shape(
        "8B", parameters=8.03e9, bits_per_weight=4.89, layers=32, attention=Attention(32, 8, 128, 128)
    ),
    hidden_size=4096,
    vocabulary_size=128_256,
    context_length=131_072,
)
LLAMA_70B = replace(
    plain_shape(
        "70B", parameters=70.55e9, bits_per_weight=4.5, layers=80, attention=Attention(64, 8, 128, 128)
    ),
    hidden_size=8192,
    vocabulary_size=128_256,
    context_length=8192,
)

rooms = st.integers(0, 200 * GB)
contexts = st.integers(SMALLEST_CONTEXT, 131_072)


class TestNeeds:
    def test_weights_cache_and_buffers(self) -> None:
        needed = needs(LLAMA_8B, 8192)
        assert needed.weights_bytes == LLAMA_8B.weight_bytes
        assert needed.cache_bytes == 8192 * 128 * 1024
        assert needed.buffer_bytes == pytest.approx(258.5 * 2**20, rel=0.2)  # what llama.cpp reports
        assert needed.total_bytes == needed.weights_bytes + needed.cache_bytes + needed.buffer_bytes

    def test_scores_of_attention_where_nothing_fuses_them(self) -> None:
        plain = needs(LLAMA_8B, 8192, flash_attention=False)
        assert plain.buffer_bytes == pytest.approx(560 * 2**20, rel=0.02)  # what llama.cpp reports

    def test_a_window_needs_itself_and_a_batch(self) -> None:
        windowed = replace(LLAMA_8B, layers=(_windowed(LLAMA_8B.layers[0], 1024),) * 32)
        assert needs(windowed, 100_000).cache_bytes == (1024 + 512) * 128 * 1024

    @given(contexts, contexts)
    def test_more_context_never_needs_less(self, one: int, other: int) -> None:
        low, high = sorted((one, other))
        assert needs(LLAMA_8B, low).total_bytes <= needs(LLAMA_8B, high).total_bytes

    @given(contexts)
    def test_a_smaller_cache_type_needs_less(self, context: int) -> None:
        assert needs(LLAMA_8B, context, kv_type="Q8_0").cache_bytes < needs(LLAMA_8B, context).cache_bytes


class TestVerdict:
    @given(rooms, contexts)
    def test_the_context_it_names_fits_and_the_next_does_not(self, room: int, context: int) -> None:
        said = verdict(LLAMA_8B, room, context=context)
        if said.largest_context is None:
            assert needs(LLAMA_8B, SMALLEST_CONTEXT).total_bytes > room
        else:
            assert needs(LLAMA_8B, said.largest_context).total_bytes <= room
            if said.largest_context < context:
                assert needs(LLAMA_8B, min(context, said.largest_context + 256)).total_bytes > room

    @given(rooms, rooms)
    def test_more_memory_never_fits_less(self, one: int, other: int) -> None:
        low, high = sorted((one, other))
        before, after = verdict(LLAMA_8B, low), verdict(LLAMA_8B, high)
        assert (before.largest_context or 0) <= (after.largest_context or 0)

    def test_fits(self) -> None:
        said = verdict(LLAMA_8B, 24 * GB, context=8192)
        assert (said.status, said.fits, said.advice) == ("fits", True, "")
        assert said.reason == (
            "4.9 GB of weights, 1.1 GB of cache for 8,192 tokens and 0.3 GB of buffers are within "
            "the 24.0 GB available"
        )

    def test_fits_with_a_smaller_context(self) -> None:
        said = verdict(LLAMA_8B, 16 * GB)
        assert said.status == "fits with a smaller context"
        assert said.context == 131_072
        assert said.largest_context is not None
        assert f"set the context to {said.largest_context:,} tokens" in said.advice
        assert "exceed the 16.0 GB available" in said.reason

    def test_or_with_a_smaller_cache_type(self) -> None:
        assert "keep the cache in Q8_0" in verdict(LLAMA_8B, 15 * GB).advice

    def test_does_not_fit_and_says_which_mix_does(self) -> None:
        said = verdict(LLAMA_8B, 5 * GB, context=4096)
        assert said.status == "does not fit"
        assert said.advice == "take it in Q3_K_M, 4.0 GB of weights"

    def test_70b_at_4_bits_is_more_than_one_gaming_card(self) -> None:
        said = verdict(LLAMA_70B, 24 * 2**30, context=8192)
        assert said.status == "does not fit"
        assert (
            said.advice
            == "take a model of at most 41.3e9 parameters in Q4_K_M, or split this one over several devices"
        )

    @given(st.integers(GB, 60 * GB))
    def test_a_mix_that_is_advised_fits(self, room: int) -> None:
        advice = verdict(LLAMA_8B, room, context=SMALLEST_CONTEXT).advice
        for mix, bits in MIXES:
            if f"in {mix}, " in advice and "at most" not in advice:
                smaller = replace(
                    plain_shape(
                        "8B",
                        parameters=8.03e9,
                        bits_per_weight=bits,
                        layers=32,
                        attention=Attention(32, 8, 128, 128),
                    ),
                    hidden_size=4096,
                    vocabulary_size=128_256,
                )
                assert verdict(smaller, room, context=SMALLEST_CONTEXT).fits

    def test_any_tiny_memory(self) -> None:
        assert "take a model of less memory" in verdict(LLAMA_8B, 0).advice


class TestPlacing:
    def test_70b_over_a_24_gb_card_and_main_memory(self) -> None:
        placed = placed_layers(LLAMA_70B, [24 * 2**30, 32 * 2**30], context=8192)
        assert placed is not None
        assert sum(placed) == 80
        assert 40 < placed[0] < 50

    @given(rooms, rooms)
    def test_each_part_fits_its_device(self, first: int, second: int) -> None:
        placed = placed_layers(LLAMA_8B, [first, second], context=4096)
        if placed is None:
            assert needs(LLAMA_8B, 4096).total_bytes > max(first, second)
        else:
            assert sum(placed) == 32

    def test_none_where_all_together_are_too_small(self) -> None:
        assert placed_layers(LLAMA_70B, [8 * GB, 8 * GB], context=4096) is None


def _windowed(layer: LayerShape, window: int) -> LayerShape:
    assert layer.attention is not None
    return replace(layer, attention=replace(layer.attention, window=window))


def test_states_do_not_grow() -> None:
    recurrent: ModelShape = replace(
        LLAMA_8B, layers=tuple(LayerShape({}, 0, 0, state_bytes=100) for _ in range(4))
    )
    assert needs(recurrent, 512).cache_bytes == needs(recurrent, 100_000).cache_bytes == 400
