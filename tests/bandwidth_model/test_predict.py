"""Laws of the prediction, and the worked numbers it has to give."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.attention import Attention
from bandwidth_model.attention_cost import VISIT, VISIT_BYTE
from bandwidth_model.devices import Device, devices, find_device
from bandwidth_model.measured import CacheSpeed, Calibration, Probe
from bandwidth_model.memory import placed_layers
from bandwidth_model.predict import (
    ACTIVATION_BYTES,
    LOAD_S,
    Conditions,
    Link,
    Placement,
    predict,
    predict_split,
)
from bandwidth_model.rates import Rates, calibrated_rates, datasheet_rates, probed_rates, thumb_rates
from bandwidth_model.shape import LayerShape, ModelShape, plain_shape
from bandwidth_model.speculative import expected_tokens, speculative_tokens_per_s, verify_s

GIB = 2**30
ATTENTION = Attention(32, 8, 128, 128)
MODEL = replace(
    plain_shape("8B", parameters=8e9, bits_per_weight=4.5, layers=32, attention=ATTENTION), hidden_size=4096
)
PROBE = Probe({1: 29e9, 2: 50e9, 4: 60e9}, flops_per_s=2e11)
CALIBRATION = Calibration(
    threads=2,
    stream_bytes_per_s={"Q4_K": 30e9, "Q8_0": 45e9},
    attention={VISIT: 7e-9, VISIT_BYTE: 5e-11},
    layer_s=40e-6,
    token_s=300e-6,
    prefill_flops_per_s=1.5e11,
    low=0.95,
    high=1.05,
)

any_device = st.sampled_from(devices())
factors = st.floats(1.01, 8)
depths = st.floats(0, 131_072)


def speed(shape: ModelShape, rates: Rates, depth: float = 0) -> float:
    return predict(shape, rates, Conditions(depth=depth)).decode_tokens_per_s


def scaled(shape: ModelShape, factor: float) -> ModelShape:
    """The same model with its weights in that many times the bytes."""
    layers = tuple(
        replace(layer, read_bytes={kind: size * factor for kind, size in layer.read_bytes.items()})
        for layer in shape.layers
    )
    return replace(shape, layers=layers)


def all_rates(device: Device) -> list[Rates]:
    return [
        datasheet_rates(device),
        datasheet_rates(device, flash_attention=False),
        datasheet_rates(device, threads=1),
        probed_rates(PROBE, threads=2),
        replace(probed_rates(PROBE, threads=2), cache=CacheSpeed(2**28, 200e9)),
        calibrated_rates(CALIBRATION),
    ]


class TestWorkedNumbers:
    def test_7b_at_4_and_a_half_bits_on_a_phone_with_60_gb_per_s(self) -> None:
        model = plain_shape("7B", parameters=7e9, bits_per_weight=4.5)
        assert round(speed(model, thumb_rates(60e9)), 1) == 10.7  # 0.7 x 60 / 3.94

    def test_the_same_model_in_16_bits_is_three_and_a_half_times_slower(self) -> None:
        fast, slow = (plain_shape("7B", parameters=7e9, bits_per_weight=bits) for bits in (4.5, 16))
        ratio = speed(fast, thumb_rates(60e9)) / speed(slow, thumb_rates(60e9))
        assert ratio == pytest.approx(3.5, abs=0.06)

    def test_70b_at_4_bits_split_over_a_24_gb_card_and_main_memory(self) -> None:
        model = plain_shape(
            "70B", parameters=70e9, bits_per_weight=4.5, layers=80, attention=Attention(64, 8, 128, 128)
        )
        placed = placed_layers(model, [24 * GIB, 64 * GIB], context=4096)
        assert placed is not None
        card, memory = (datasheet_rates(find_device(name)) for name in ("RTX 4090", "Ryzen 9 7950X"))
        both = predict_split(model, [Placement(card, placed[0]), Placement(memory, placed[1])])
        assert speed(model, memory) < both.decode_tokens_per_s < speed(model, card)
        assert 1.5 < both.decode_tokens_per_s < 4
        assert both.basis.devices == ("RTX 4090", "Ryzen 9 7950X")


class TestLaws:
    @given(any_device, factors, depths)
    def test_fewer_bytes_never_slow(self, device: Device, factor: float, depth: float) -> None:
        for rates in all_rates(device):
            assert speed(scaled(MODEL, 1 / factor), rates, depth) >= speed(MODEL, rates, depth)

    @given(any_device, factors, depths, st.booleans())
    def test_more_bandwidth_never_slows(
        self, device: Device, factor: float, depth: float, flash_attention: bool
    ) -> None:
        faster = replace(device, bandwidth_bytes_per_s=device.bandwidth_bytes_per_s * factor)
        slow, fast = (datasheet_rates(each, flash_attention=flash_attention) for each in (device, faster))
        assert speed(MODEL, fast, depth) >= speed(MODEL, slow, depth)
        assert predict(MODEL, fast).prefill_tokens_per_s >= predict(MODEL, slow).prefill_tokens_per_s

    @given(any_device, factors)
    def test_more_arithmetic_never_slows(self, device: Device, factor: float) -> None:
        if device.flops_per_s is None:
            return
        faster = replace(device, flops_per_s=device.flops_per_s * factor)
        assert speed(MODEL, datasheet_rates(faster)) >= speed(MODEL, datasheet_rates(device))

    @given(any_device, depths, depths)
    def test_deeper_never_speeds_up(self, device: Device, one: float, other: float) -> None:
        low, high = sorted((one, other))
        for rates in all_rates(device):
            assert speed(MODEL, rates, low) >= speed(MODEL, rates, high)

    @given(any_device, depths, st.integers(1, 8192))
    def test_intervals_are_ordered(self, device: Device, depth: float, prompt: int) -> None:
        for rates in all_rates(device):
            said = predict(MODEL, rates, Conditions(depth=depth, prompt_tokens=prompt))
            assert 0 < said.low <= said.decode_tokens_per_s <= said.high
            assert 0 < said.prefill_low <= said.prefill_tokens_per_s <= said.prefill_high
            assert said.tier == rates.tier

    @given(any_device, depths)
    def test_terms_sum_to_the_rate(self, device: Device, depth: float) -> None:
        for rates in all_rates(device):
            said = predict(MODEL, rates, Conditions(depth=depth))
            assert 1 / said.basis.terms.total_s == pytest.approx(said.decode_tokens_per_s)

    @given(any_device, st.integers(1, 31), depths)
    def test_a_split_over_equal_devices_is_one_device_and_the_hop(
        self, device: Device, first: int, depth: float
    ) -> None:
        rates, link, at = replace(datasheet_rates(device), token_s=1e-4), Link(10e9, 20e-6), Conditions(depth)
        one = predict(MODEL, rates, at)
        two = predict_split(MODEL, [Placement(rates, first), Placement(rates, 32 - first)], at, link)
        hop_s = 4096 * ACTIVATION_BYTES / 10e9 + 20e-6
        assert 1 / two.decode_tokens_per_s == pytest.approx(1 / one.decode_tokens_per_s + hop_s)
        assert two.prefill_tokens_per_s == pytest.approx(one.prefill_tokens_per_s)

    def test_a_split_is_as_certain_as_its_least_certain_device(self) -> None:
        placements = [Placement(calibrated_rates(CALIBRATION), 16), Placement(thumb_rates(60e9), 16)]
        said = predict_split(MODEL, placements)
        assert said.tier == "datasheet"
        assert said.low / said.decode_tokens_per_s > 0.55

    def test_layers_that_do_not_add_up_are_refused(self) -> None:
        with pytest.raises(ValueError, match="31 layers are placed; the model has 32"):
            predict_split(MODEL, [Placement(thumb_rates(60e9), 31)])

    @given(any_device, st.integers(1, 8192), st.integers(1, 8192))
    def test_a_longer_prompt_takes_longer(self, device: Device, one: int, other: int) -> None:
        rates = datasheet_rates(device)
        low, high = (predict(MODEL, rates, Conditions(prompt_tokens=n)) for n in sorted((one, other)))
        assert low.warm.ttft_s <= high.warm.ttft_s


class TestFirstToken:
    def test_cold_is_warm_and_loading_and_the_file_from_disk(self) -> None:
        said = predict(MODEL, probed_rates(PROBE, threads=2), Conditions(disk_bytes_per_s=1e9))
        assert said.warm.load_s == said.warm.page_in_s == 0
        assert said.cold.page_in_s == MODEL.file_bytes / 1e9
        assert said.cold.ttft_s == pytest.approx(said.warm.ttft_s + LOAD_S + MODEL.file_bytes / 1e9)
        assert said.warm.prefill_s == pytest.approx(512 / said.prefill_tokens_per_s)
        assert said.warm.decode_s == pytest.approx(1 / said.decode_tokens_per_s)

    def test_a_prompt_at_depth_is_slower_than_one_at_the_start(self) -> None:
        rates = probed_rates(PROBE, threads=2)
        start, deep = (predict(MODEL, rates, Conditions(depth=depth)) for depth in (512, 100_000))
        assert deep.prefill_tokens_per_s < start.prefill_tokens_per_s
        assert start.prefill_tokens_per_s == predict(MODEL, rates).prefill_tokens_per_s

    def test_a_short_prompt_is_bound_by_reading_the_weights(self) -> None:
        said = predict(MODEL, datasheet_rates(find_device("RTX 4090")), Conditions(prompt_tokens=1))
        assert said.warm.prefill_s == pytest.approx(said.warm.decode_s, rel=0.01)


class TestThreads:
    @pytest.mark.parametrize("name", ["Raspberry Pi 5", "Core i9-13900K", "Ryzen 9 7950X"])
    def test_decode_peaks_below_all_cores_while_prefill_scales(self, name: str) -> None:
        device = find_device(name)
        assert device.cores
        small = plain_shape("0.5B", parameters=0.5e9, bits_per_weight=5, layers=24)
        said = [predict(small, datasheet_rates(device, threads=n + 1)) for n in range(device.cores)]
        decode = [each.decode_tokens_per_s for each in said]
        prefill = [each.prefill_tokens_per_s for each in said]
        assert decode.index(max(decode)) < device.cores - 1
        assert prefill == sorted(prefill)
        assert said[0].basis.threads == 1

    def test_more_threads_than_cores_count_as_all(self) -> None:
        device = find_device("Raspberry Pi 5")
        assert datasheet_rates(device, threads=64) == datasheet_rates(device, threads=4)
        assert datasheet_rates(device) == datasheet_rates(device, threads=4)

    def test_types_that_are_costly_to_decode_need_more_threads(self) -> None:
        device = find_device("EPYC 9004 (Genoa)")
        rates = [datasheet_rates(device, threads=threads) for threads in (1, 8)]
        assert rates[0].stream("Q4_K") == pytest.approx(18e9, rel=0.01)
        assert rates[0].stream("Q8_0") == pytest.approx(29e9, rel=0.01)
        assert rates[1].stream("Q4_K") == pytest.approx(8 * 18e9, rel=0.01)

    def test_prompts_are_bound_by_the_threads_in_use(self) -> None:
        device = find_device("EPYC 9004 (Genoa)")
        two, eight = (datasheet_rates(device, threads=threads).prefill_flops_per_s for threads in (2, 8))
        assert eight == pytest.approx(4 * two)
        assert two < 2 * 110e9

    def test_a_probe_is_read_between_its_counts_and_beyond(self) -> None:
        assert [PROBE.at(threads) for threads in (1, 2, 3, 4, 9)] == [29e9, 50e9, 55e9, 60e9, 60e9]
        assert Probe({2: 40e9}, 1e11).at(1) == 20e9


class TestTiers:
    def test_a_device_without_arithmetic_in_the_table_has_the_usual(self) -> None:
        device = find_device("RTX 4090")
        unknown = datasheet_rates(replace(device, flops_per_s=None))
        assert speed(MODEL, unknown) == pytest.approx(speed(MODEL, datasheet_rates(device)), rel=0.2)

    def test_calibrated_rates_reach_types_that_were_not_measured(self) -> None:
        rates = calibrated_rates(CALIBRATION)
        assert rates.stream("Q4_K") == 30e9
        assert rates.stream("Q6_K") == 30e9  # as costly to decode as Q4_K
        assert rates.stream("F16") == 45e9  # as cheap as Q8_0
        only_cheap = replace(CALIBRATION, stream_bytes_per_s={"Q8_0": 45e9})
        assert calibrated_rates(only_cheap).stream("Q4_K") == 45e9

    def test_calibrated_is_the_formula_itself(self) -> None:
        said = predict(MODEL, calibrated_rates(CALIBRATION), Conditions(depth=1000))
        keys = 512  # of 1,000, counted as 1,024, the first of two threads has half
        visits_s = 32 * 32 * keys * (7e-9 + 512 * 5e-11)
        expected_s = 4.5e9 / 30e9 + visits_s + 32 * 40e-6 + 300e-6
        assert 1 / said.decode_tokens_per_s == pytest.approx(expected_s)
        assert (said.low, said.high) == pytest.approx(
            (0.95 * said.decode_tokens_per_s, 1.05 * said.decode_tokens_per_s)
        )

    def test_a_model_that_fits_the_cache_is_read_at_its_speed(self) -> None:
        rates = probed_rates(replace(PROBE, cache=CacheSpeed(32 * 2**20, 90e9)), threads=2)
        inside = plain_shape("tiny", parameters=20e6, bits_per_weight=8, quantization="Q8_0")
        outside = plain_shape("less tiny", parameters=40e6, bits_per_weight=8, quantization="Q8_0")
        assert predict(inside, rates).basis.terms.weights_s == pytest.approx(20e6 / 90e9)
        assert predict(outside, rates).basis.terms.weights_s == pytest.approx(40e6 / (0.8 * 50e9))

    def test_recurrent_state_is_read_and_written_whatever_the_depth(self) -> None:
        layer = LayerShape({"F16": 1e9}, 10**9, 5 * 10**8, state_bytes=10**8)
        model = replace(MODEL, layers=(layer,))
        rates = calibrated_rates(CALIBRATION)
        assert speed(model, rates, 0) == speed(model, rates, 10**6)
        assert predict(model, rates).basis.terms.kv_s == pytest.approx(2e8 / 45e9)


class TestSpeculation:
    TARGET = (MODEL, datasheet_rates(find_device("RTX 4090")))
    DRAFT = (plain_shape("1B", parameters=1e9, bits_per_weight=4.5, layers=16), TARGET[1])

    @pytest.mark.parametrize(
        ("drafted", "acceptance", "tokens"),
        [(0, 0.5, 1), (1, 0.5, 1.5), (2, 0.5, 1.75), (4, 0, 1), (4, 1, 5)],
    )
    def test_expected_tokens(self, drafted: int, acceptance: float, tokens: float) -> None:
        assert expected_tokens(drafted, acceptance) == tokens

    def test_without_drafts_it_is_plain_decoding(self) -> None:
        plain = speculative_tokens_per_s(self.TARGET, self.DRAFT, drafted=0, acceptance=0.7)
        assert plain == pytest.approx(speed(*self.TARGET))

    def test_good_drafts_pay_and_bad_ones_cost(self) -> None:
        good, bad = (
            speculative_tokens_per_s(self.TARGET, self.DRAFT, drafted=4, acceptance=acceptance)
            for acceptance in (0.9, 0.0)
        )
        assert bad < speed(*self.TARGET) < good

    @given(st.integers(1, 64), st.integers(1, 64))
    def test_verifying_more_never_takes_less(self, one: int, other: int) -> None:
        low, high = sorted((one, other))
        assert verify_s(*self.TARGET, low) <= verify_s(*self.TARGET, high)

    @given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 8))
    def test_better_drafts_never_slow(self, one: float, other: float, drafted: int) -> None:
        low, high = sorted((one, other))
        rates = [
            speculative_tokens_per_s(self.TARGET, self.DRAFT, drafted=drafted, acceptance=each)
            for each in (low, high)
        ]
        assert rates[0] <= rates[1] * (1 + 1e-9)
