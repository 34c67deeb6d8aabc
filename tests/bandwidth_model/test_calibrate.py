"""The fit gives back what runs were made of, and never a rate below zero."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandwidth_model.attention import Attention
from bandwidth_model.attention_cost import KNOTS, VISIT, VISIT_BYTE
from bandwidth_model.calibrate import (
    Run,
    fit,
    least_squares,
    own_run,
    predicted_s,
    prompt_of,
    run_of,
)
from bandwidth_model.measured import Calibration
from bandwidth_model.predict import Conditions, Prediction, predict, prefill_s
from bandwidth_model.rates import OWN_HIGH, OWN_LOW, Rates, adjusted, calibrated_rates
from bandwidth_model.shape import ModelShape, plain_shape

COSTS = {VISIT: 7e-9, VISIT_BYTE: 5e-11} | {
    f"row {row}/{stride}": row * stride * 2e-13 for row in KNOTS for stride in KNOTS[row]
}
TRUTH = Calibration(
    threads=2,
    stream_bytes_per_s={"Q4_0": 20e9, "Q8_0": 30e9, "Q6_K": 12e9},
    layer_s=40e-6,
    token_s=200e-6,
    prefill_flops_per_s=1e11,
    low=0.95,
    high=1.05,
    attention=COSTS,
    attention_flops_per_s=5e10,
    prefill_by_quantization={"Q4_0": 3e11, "Q8_0": 2e11, "Q6_K": 1e11},
)
RATES = calibrated_rates(TRUTH)


def shape(kind: str, parameters: float, layers: int, attention: Attention) -> ModelShape:
    name = f"{kind} {parameters:.0f} {layers}"
    bits = {"Q4_0": 4.5, "Q8_0": 8.5, "Q6_K": 6.5625}[kind]
    return plain_shape(
        name,
        parameters=parameters,
        bits_per_weight=bits,
        layers=layers,
        attention=attention,
        quantization=kind,
    )


GROUPED, EACH = Attention(16, 2, 64, 64), Attention(16, 16, 64, 64)
SHAPES = [
    shape("Q4_0", 3e8, 6, EACH),
    shape("Q8_0", 2e8, 6, EACH),
    shape("Q6_K", 2e8, 6, GROUPED),
    shape("Q8_0", 5e7, 24, GROUPED),
    shape("Q8_0", 1e5, 1, GROUPED),
    *(
        shape("Q8_0", 1e5, 8, Attention(heads, 1, length, length))
        for heads in (8, 16)
        for length in (64, 128)
    ),
    *(
        shape("Q8_0", 1e5, 8, Attention(stride // row, stride // row, row // 2, row // 2))
        for row in KNOTS
        for stride in KNOTS[row]
    ),
]


def run(model: ModelShape, depth: float, threads: int = 2) -> Run:
    """As TRUTH would have it."""
    seconds = predict(model, RATES, Conditions(depth=depth)).basis.terms.total_s
    prompt = None if depth else prompt_of(model, 128, 0, prefill_s(model, RATES, 128))
    score_s = RATES.vocabulary_s * model.vocabulary_size
    return run_of(model, threads=threads, depth=depth, token_s=seconds, score_s=score_s, prompt=prompt)


RUNS = [run(each, depth) for each in SHAPES for depth in (0, 1500)]


def test_the_truth_is_found() -> None:
    found = fit(RUNS, 2)
    assert found.stream_bytes_per_s == pytest.approx(TRUTH.stream_bytes_per_s, rel=1e-6)
    assert found.layer_s == pytest.approx(TRUTH.layer_s, rel=1e-6)
    assert found.token_s == pytest.approx(TRUTH.token_s, rel=1e-6)
    assert found.attention == pytest.approx(COSTS, rel=1e-6)


def test_a_model_it_never_saw_is_predicted_as_by_the_truth() -> None:
    unseen = shape("Q6_K", 3e9, 28, Attention(24, 6, 96, 96))
    for depth in (0, 4096):
        asked = Conditions(depth=depth)
        found = predict(unseen, calibrated_rates(fit(RUNS, 2)), asked)
        assert found.decode_tokens_per_s == pytest.approx(
            predict(unseen, RATES, asked).decode_tokens_per_s, rel=1e-6
        )


@given(st.lists(st.floats(0.85, 1.15), min_size=len(RUNS), max_size=len(RUNS)))
@settings(max_examples=40, deadline=None)
def test_noise_gives_no_nonsense(noise: list[float]) -> None:
    noisy = [replace(each, token_s=each.token_s * factor) for each, factor in zip(RUNS, noise, strict=True)]
    found = fit(noisy, 2)
    assert all(rate > 0 for rate in found.stream_bytes_per_s.values())
    assert min(found.layer_s, found.token_s) >= 0
    assert min(found.attention.values(), default=0) >= 0
    assert 0 < found.low < 1 < found.high
    for each in noisy:
        assert 0.5 < predicted_s(each, calibrated_rates(found)) / each.token_s < 2


def test_other_thread_counts_do_not_count() -> None:
    others = [replace(each, threads=1, token_s=each.token_s * 3) for each in RUNS]
    assert fit([*RUNS, *others], 2) == fit(RUNS, 2)
    with pytest.raises(ValueError, match="no run used 8"):
        fit(RUNS, 8)


def test_a_type_read_too_little_has_no_rate_of_its_own() -> None:
    norms = [
        replace(each, bytes_by_quantization={**each.bytes_by_quantization, "F32": 1e3}) for each in RUNS[:4]
    ]
    assert "F32" not in fit(norms, 2).stream_bytes_per_s


def test_one_run_alone_is_fitted_too() -> None:
    found = fit(RUNS[:1], 2)
    assert predicted_s(RUNS[0], calibrated_rates(found)) == pytest.approx(RUNS[0].token_s)
    assert not found.attention  # of which nothing was seen


rows = st.dictionaries(st.sampled_from("abcd"), st.just(0.0) | st.floats(1e-3, 1e9), min_size=1)


@given(st.lists(st.tuples(rows, st.floats(1e-6, 10)), min_size=1, max_size=8))
@settings(max_examples=80, deadline=None)
def test_costs_are_finite_and_never_negative(pairs: list[tuple[dict[str, float], float]]) -> None:
    found = least_squares([row for row, _ in pairs], [seconds for _, seconds in pairs])
    assert all(isfinite(cost) and cost >= 0 for cost in found.values())


@given(st.floats(0.3, 3), st.floats(0, 8192), st.integers(1, 50))
def test_own_runs_pull_every_prediction_towards_them(ratio: float, depth: float, runs: int) -> None:
    """``ratio`` times as slow as was thought."""
    model, asked = SHAPES[0], Conditions(depth=depth)
    before = predict(model, RATES, asked).decode_tokens_per_s
    own = run_of(model, threads=2, depth=depth, token_s=ratio / before)

    def after(rates: Rates, count: int) -> Prediction:
        return predict(model, adjusted(rates, [own_run(own, rates, count)]), asked)

    doubtful = replace(RATES, low=0.1, high=10)
    found = [after(RATES, runs), after(RATES, runs + 1), after(doubtful, runs)]
    moved = [abs(log(each.decode_tokens_per_s / before)) for each in found]
    assert moved[0] <= moved[1] + 1e-9
    assert moved[0] <= moved[2] + 1e-9
    assert max(moved) <= abs(log(ratio)) + 1e-6
    assert found[2].decode_tokens_per_s == pytest.approx(before / ratio, rel=0.01)
    assert (found[0].low, found[0].high) == (
        pytest.approx(found[0].decode_tokens_per_s * OWN_LOW),
        pytest.approx(found[0].decode_tokens_per_s * OWN_HIGH),
    )
    assert found[0].prefill_tokens_per_s > 0


@given(st.floats(1.2, 3), st.integers(1, 5))
def test_a_first_reply_at_a_shallow_depth_carries_to_great_ones(ratio: float, runs: int) -> None:
    """Everything was slower, so that attention is thought to be slower as well."""
    model, deep = SHAPES[0], Conditions(depth=4096)
    own = run_of(model, threads=2, depth=10, token_s=predicted_s(run(model, 10), RATES) * ratio)
    rates = adjusted(RATES, [own_run(own, RATES, runs)])
    before, after = (predict(model, each, deep).basis.terms.kv_s for each in (RATES, rates))
    assert before < after < before * ratio
