"""Attention's work: every key by every query head, shared by the threads as the engine shares it."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandwidth_model.attention import Attention
from bandwidth_model.attention_cost import KNOTS, VISIT, VISIT_BYTE, attention_work, seconds

depths = st.floats(0, 32_768)
threads = st.integers(1, 64)
lengths = st.sampled_from((32, 64, 80, 96, 128, 256))


@st.composite
def attentions(draw: st.DrawFn) -> Attention:
    kv_heads, ratio, length = draw(st.integers(1, 32)), draw(st.integers(1, 12)), draw(lengths)
    window = draw(st.none() | st.integers(1, 4096))
    return Attention(kv_heads * ratio, kv_heads, length, length, window=window)


def rows(work: dict[str, float]) -> float:
    return sum(amount for unit, amount in work.items() if unit not in (VISIT, VISIT_BYTE))


@given(attentions(), depths, threads)
def test_the_busiest_thread_has_its_share_and_at_most_all(one: Attention, depth: float, count: int) -> None:
    visits = attention_work(one, depth, "F16", count)[VISIT]
    everything = one.heads * one.tokens_seen(depth)
    assert everything / count <= visits * (1 + 1e-9)
    assert visits <= everything * (1 + 1e-9)
    assert attention_work(one, depth, "F16", 1)[VISIT] == pytest.approx(everything)


@given(attentions(), depths, depths, threads)
def test_deeper_is_never_less_work(one: Attention, depth: float, more: float, count: int) -> None:
    shallow, deep = (attention_work(one, each, "F16", count) for each in (depth, depth + more))
    assert all(deep[unit] >= amount - 1e-6 for unit, amount in shallow.items())


@given(attentions(), depths, threads)
def test_a_row_is_found_once_for_all_that_share_it(one: Attention, depth: float, count: int) -> None:
    work = attention_work(one, depth, "F16", count)
    assert 0 <= rows(work) <= work[VISIT] / one.query_ratio * (1 + 1e-9)
    if one.kv_heads == 1:
        assert rows(work) == 0  # rows that lie end to end


@pytest.mark.parametrize(("row", "stride"), [(row, stride) for row in KNOTS for stride in KNOTS[row]])
def test_what_was_measured_is_not_interpolated(row: int, stride: int) -> None:
    one = Attention(stride // row, stride // row, row // 2, row // 2)
    work = attention_work(one, 1000, "f16", 1)
    waited = {unit: amount for unit, amount in work.items() if amount and unit not in (VISIT, VISIT_BYTE)}
    assert waited == {f"row {row}/{stride}": pytest.approx(work[VISIT])}


def test_two_threads_share_keys_in_steps() -> None:
    """1,025 keys are counted as 1,280: the first thread has 640 of them, not 513."""
    one = Attention(16, 8, 128, 128)
    assert attention_work(one, 1024, "F16", 2)[VISIT] == 16 * 640
    assert attention_work(one, 2040, "F16", 2)[VISIT] == 16 * 1024
    assert attention_work(one, 100, "F16", 3)[VISIT] == ceil(16 / 3) * 100


@given(attentions(), depths, st.floats(0, 1e-6), st.floats(0, 1e-9))
def test_seconds_are_work_by_cost(one: Attention, depth: float, visit_s: float, byte_s: float) -> None:
    work = attention_work(one, depth, "Q8_0", 1)
    taken = seconds(work, {VISIT: visit_s, VISIT_BYTE: byte_s})
    assert taken == pytest.approx(work[VISIT] * visit_s + work[VISIT_BYTE] * byte_s)
