"""Laws of how figures are recorded: a table cannot flatter, a pair cannot drift."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.machine import Commit, Machine, Reading, Work, between
from benchmarks.record import Pairs, Record, alternate, arguments, measured, meets, number, report, table

FIGURES = st.floats(min_value=0.001, max_value=1e6)
MACHINE = Machine("A processor", 2, 2**33, "Linux", "3.11", "0.3")
CALM = (0.0, 0.0, 0.0)


def record() -> Record:
    return Record("decode", Commit("0123456789abcdef", True), MACHINE, "2026-01-01T00:00:00+00:00", True, 3)


@pytest.mark.parametrize(
    ("value", "goal", "met"),
    [
        (1.0, "≤ 1.0", True),
        (1.01, "≤ 1.0", False),
        (1.0, "< 1", False),
        (0.95, "≥ 0.95", True),
        (200, "= 200", True),
        (1500, "≥ 1,000", True),
        (99.0, "> 99 %", False),
    ],
)
def test_a_goal_is_a_sign_and_a_number(value: float, goal: str, met: bool) -> None:
    assert meets(value, goal) is met


def test_a_goal_without_a_sign_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with"):
        meets(1.0, "150")


@given(st.lists(FIGURES, min_size=1))
def test_the_value_lies_within_its_spread(samples: list[float]) -> None:
    row = measured("x", samples)
    low, high = row.spread
    assert low <= row.value <= high
    assert row.met is None


def test_a_missed_goal_is_said() -> None:
    [met, missed] = table([measured("a", 1.0, "s", "≤ 2"), measured("b", 3.0, "s", "≤ 2")])
    assert "MISSED" not in met
    assert "MISSED" in missed


def test_columns_are_aligned() -> None:
    lines = table([measured("short", 1.0, "s"), measured("a longer name", 12345.0, "tokens/s")])
    assert lines[0].index(" s") == lines[1].index(" tokens/s")


def test_no_rows_no_table() -> None:
    assert table([]) == []


@pytest.mark.parametrize(
    ("value", "text"), [(200.0, "200"), (0.98765, "0.9877"), (12345.6, "12,346"), (float("inf"), "inf")]
)
def test_numbers_have_as_many_digits_as_they_say_something(value: float, text: str) -> None:
    assert number(value) == text


@given(st.integers(1, 9))
def test_alternating_swaps_the_order_of_each_pair(repeats: int) -> None:
    order: list[str] = []

    def run(name: str) -> float:
        order.append(name)
        return float(len(order))

    pairs = alternate(lambda: run("a"), lambda: run("b"), repeats)
    assert len(pairs.a) == len(pairs.b) == repeats
    assert "".join(order) == ("abba" * repeats)[: 2 * repeats]


@given(st.lists(FIGURES, min_size=1), st.floats(min_value=0.1, max_value=10))
def test_a_drift_of_the_machine_does_not_touch_the_ratio(drift: list[float], ratio: float) -> None:
    pairs = Pairs(tuple(ratio * slow for slow in drift), tuple(drift))
    assert pairs.ratio == pytest.approx(ratio)


@given(all_s=st.floats(0, 100), own_s=st.floats(0, 100))
def test_others_take_what_is_left_and_never_less_than_nothing(all_s: float, own_s: float) -> None:
    work = between(Reading(0.0, 0.0, 0.0, CALM), Reading(50.0, all_s, own_s, CALM), cores=2)
    assert work.others_cpu_s == pytest.approx(max(0.0, all_s - own_s))
    assert work.disturbed == (work.others_share > 0.05)


def test_a_disturbed_run_is_said() -> None:
    disturbed = record()
    disturbed.work = Work(10.0, 10.0, 5.0, 2, CALM, CALM)
    assert "DISTURBED" in report(disturbed)
    assert "with changes" in report(disturbed)


def test_the_json_holds_what_is_needed_to_read_it_later() -> None:
    full = record()
    full.row("rate", [1.0, 2.0, 4.0], "tokens/s", "≥ 3", "a note")
    full.work = Work(10.0, 10.0, 0.0, 2, CALM, CALM)
    read = json.loads(full.as_json())
    assert read["rows"][0] == {
        "name": "rate",
        "value": 2.0,
        "unit": "tokens/s",
        "goal": "≥ 3",
        "met": False,
        "note": "a note",
        "samples": [1.0, 2.0, 4.0],
        "spread": [1.0, 4.0],
    }
    assert read["machine"]["cpu"] == "A processor"
    assert read["commit"] == {"id": "0123456789abcdef", "dirty": True}
    assert read["work"]["load_after"] == [0.0, 0.0, 0.0]


def test_every_script_has_the_same_flags() -> None:
    parser = arguments("What it measures.\n\nMore.", repeats=7)
    assert parser.parse_args([]).repeats == 7
    assert parser.description == "What it measures."
