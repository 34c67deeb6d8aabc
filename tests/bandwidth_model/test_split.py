"""Laws of a model on several devices: every layer is placed once and within the memory there is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.catalogue_shape import known_shape
from bandwidth_model.devices import GIB, find_device
from bandwidth_model.memory import needs, placed_layers, portion, verdict
from bandwidth_model.predict import Placement, predict, predict_split
from bandwidth_model.rates import datasheet_rates
from bandwidth_model.room import assumed_memory_bytes, kept_free, room_bytes
from bandwidth_model.shape import ModelShape
from bandwidth_model.split import split_verdict

GB = 10**9


def shape(name: str) -> ModelShape:
    found = known_shape(name)
    assert found is not None
    return found


LLAMA_70B, GPT_OSS = shape("llama-3.3-70b"), shape("gpt-oss-20b")
rooms = st.lists(st.integers(0, 60 * GB), min_size=2, max_size=4)


class TestTheLayers:
    @given(rooms, st.sampled_from([512, 4096, 8192, 32768]))
    def test_each_is_placed_once_and_within_memory_where_it_fits(self, room: list[int], context: int) -> None:
        found = split_verdict(LLAMA_70B, room, context=context)
        assert sum(found.layers) == 80
        assert len(found.layers) == len(found.needs) == len(room)
        if found.verdict.fits:
            assert all(need.total_bytes <= size for need, size in zip(found.needs, room, strict=True))
        assert (found.verdict.largest_context is None) == (found.verdict.status == "does not fit")

    @given(rooms)
    def test_the_context_it_names_fits(self, room: list[int]) -> None:
        largest = split_verdict(LLAMA_70B, room, context=32768).verdict.largest_context
        if largest is not None:
            assert placed_layers(LLAMA_70B, room, context=largest) is not None

    @given(st.integers(0, 90 * GB))
    def test_one_device_is_as_if_not_split(self, room: int) -> None:
        found = split_verdict(LLAMA_70B, [room], context=4096)
        assert (found.layers, found.verdict) == ((80,), verdict(LLAMA_70B, room, context=4096))

    def test_parts_add_up_to_the_whole(self) -> None:
        found = split_verdict(LLAMA_70B, [24 * GB, 64 * GB], context=4096)
        whole = needs(LLAMA_70B, 4096)
        assert sum(need.weights_bytes for need in found.needs) == whole.weights_bytes
        assert sum(need.cache_bytes for need in found.needs) == whole.cache_bytes
        assert found.verdict.needs.weights_bytes == whole.weights_bytes

    def test_a_card_that_holds_nothing_is_left_out(self) -> None:
        found = split_verdict(GPT_OSS, [0, 64 * GB], context=4096)
        assert found.layers == (0, 24)
        assert found.needs[0].total_bytes == 0

    @given(st.integers(0, 79), st.integers(1, 80))
    def test_halving_finds_what_counting_finds(self, start: int, fitting: int) -> None:
        count = min(fitting, 80 - start)
        room = needs(portion(LLAMA_70B, start, count), 4096).total_bytes
        first, *_ = placed_layers(LLAMA_70B, [room, 2**50], context=4096) or (0,)
        assert needs(portion(LLAMA_70B, 0, first), 4096).total_bytes <= room
        assert first == 80 or needs(portion(LLAMA_70B, 0, first + 1), 4096).total_bytes > room

    def test_says_what_to_change(self) -> None:
        smaller = split_verdict(LLAMA_70B, [24 * GB, 24 * GB], context=32768).verdict
        assert smaller.status == "fits with a smaller context"
        assert smaller.advice == f"set the context to {smaller.largest_context:,} tokens"
        never = split_verdict(LLAMA_70B, [8 * GB, 8 * GB], context=4096).verdict
        assert never.reason == "2 devices with 16.0 GB together do not hold its layers"
        assert "take" in never.advice


class TestTheSpeed:
    def test_a_70b_model_on_a_card_and_a_processor_lies_between_the_two(self) -> None:
        card, processor = (datasheet_rates(find_device(name)) for name in ("RTX 4090", "Ryzen 9 7950X"))
        layers = split_verdict(LLAMA_70B, [24 * GB, 64 * GB], context=4096).layers
        both = predict_split(LLAMA_70B, [Placement(card, layers[0]), Placement(processor, layers[1])])
        alone, faster = predict(LLAMA_70B, processor), predict(LLAMA_70B, card)
        assert alone.decode_tokens_per_s < both.decode_tokens_per_s < faster.decode_tokens_per_s
        assert both.basis.devices == ("RTX 4090", "Ryzen 9 7950X")


class TestRoom:
    @pytest.mark.parametrize(
        ("name", "gib", "mib"),
        [("Apple M1 8c", 16, 10922), ("Apple M2 8c", 24, 16384), ("Apple M1 Max 32c", 64, 49152)],
    )
    def test_what_metal_lets_programs_have(self, name: str, gib: int, mib: int) -> None:
        assert room_bytes(find_device(name), gib * GIB) == pytest.approx(mib * 2**20, rel=1e-3)

    def test_a_card_keeps_what_llama_cpp_keeps_free(self) -> None:
        assert room_bytes(find_device("RTX 4090"), 24 * GIB) == 23 * GIB

    @given(st.integers(0, 2**45))
    def test_something_is_always_left(self, size: int) -> None:
        assert 0.75 * size - 1 <= kept_free(size) <= size

    def test_the_smallest_size_is_assumed(self) -> None:
        assert assumed_memory_bytes(find_device("RTX 4060 Ti")) == 8 * GIB
