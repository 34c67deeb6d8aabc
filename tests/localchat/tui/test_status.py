import pytest
from hypothesis import given
from hypothesis import strategies as st

from localchat.tui.status import Status, TokenRate, progress_text, status_line
from router.request import Progress

FULL = Status("writing", 38.24, 1_204, 8_192, "smollm2-135m", "Q4_1")


def test_the_whole_line() -> None:
    assert status_line(FULL, 76).plain.startswith("writing · 38.2 tokens/s ")
    assert status_line(FULL, 76).plain.endswith(" smollm2-135m Q4_1 · 1,204 / 8,192 ▰▰▱▱▱▱▱▱")


@given(st.integers(30, 200))
def test_it_fills_the_width_and_drops_the_least_important(width: int) -> None:
    line = status_line(FULL, width).plain
    assert len(line) <= max(width, 30)
    assert line.startswith("writing")


@given(st.integers(0, 30))
def test_any_width_gives_one_line(width: int) -> None:
    assert "\n" not in status_line(FULL, width).plain


def test_the_meter_is_full_only_when_the_window_is() -> None:
    assert "▱" not in status_line(Status(used_tokens=8_192, window_tokens=8_192), 80).plain
    assert "▰" not in status_line(Status(used_tokens=0, window_tokens=8_192), 80).plain
    assert "context 8,192" in status_line(Status(window_tokens=8_192), 80).plain


@given(st.floats(2, 500), st.integers(20, 300))
def test_the_rate_of_steady_tokens_is_their_rate(rate: float, count: int) -> None:
    measured = TokenRate()
    for n in range(count):
        measured.add(n / rate, 1)
    assert measured.per_s((count - 1) / rate) == pytest.approx(rate)


def test_the_rate_forgets_what_is_over_a_second_old() -> None:
    rate = TokenRate()
    for n in range(100):
        rate.add(n / 10, 1)
    for n in range(101):
        rate.add(10 + n / 100, 1)
    assert rate.per_s(11.0) == pytest.approx(100, rel=0.05)


def test_one_token_has_no_rate() -> None:
    rate = TokenRate()
    rate.add(0.0, 1)
    rate.add(1.0, 0)
    assert rate.per_s(1.0) is None


def test_progress_says_percent_rate_and_time_left() -> None:
    progress = Progress("prefill", 430, 1000, "tokens", 118.0, 4.2)
    assert progress_text(progress) == "reading the prompt 43 % · 118 tokens/s · 4 s left"
    assert progress_text(Progress("load", 0.5, 1.0, "fraction")) == "loading the model 50 %"
