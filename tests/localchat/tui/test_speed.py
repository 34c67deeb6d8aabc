"""Predicted and measured speed in the chat: while typing, while it streams, in the panel, below the reply."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from bandwidth_model.residual import Residual
from localchat.reply_speed import SpeedReport
from localchat.tui.estimate import NOT_MEASURED, Typed, expected
from localchat.tui.figures import band_text, percent_text
from localchat.tui.speed_panel import NOTHING_YET, SpeedPanel, speed_text
from localchat.tui.status import Status, status_line
from router.dispatch import Dispatch
from router.forecaster import Observed
from router.request import Delta, Finished, Forecast, Progress, Timings, TokenScore, Usage
from tests.router.forecasters import FORECAST, FakeForecaster, FakeWatch

SCORE = TokenScore(-0.1, 2.0, 0.5)
COUNTS = Progress("prefill", 0, 120, "tokens")
WORDS = [Delta(f"word{n} ", scores=(SCORE,)) for n in range(20)]
END = Finished("stop", Usage(120, 0, 20), Timings(0.0, 0.31, 380.0, 72.4), "smollm2-135m")
SEEN = Observed(5.0, 2, others_cores=0.9, clock=0.82, own_cpu_s=0.12)
PARTS = Residual(0.0, 0.00031, 0.0, 0.0021, 0.0009, 0.00035, -0.0012)
REPORT = SpeedReport(
    forecast=FORECAST,
    tokens=400,
    tokens_per_s=72.4,
    ttft_s=0.31,
    depth=320.0,
    threads=2,
    observed=SEEN,
    residual=PARTS,
)


@pytest.fixture
def predicting(make_program: Any) -> Any:
    """A program whose model's speed is known."""

    def make(model: Any = None, known: FakeForecaster | None = None) -> Any:
        program = make_program([COUNTS, *WORDS, END], model=model)
        program.forecaster = known or FakeForecaster(watched=FakeWatch(SEEN))
        program.session.dispatch = Dispatch(program.model, program.forecaster)
        return program

    return make


# -- the panel


def test_every_figure_has_its_words() -> None:
    text = speed_text(REPORT).plain
    for words in (
        "80.0 tokens/s",
        "70–95, probed",
        "72.4 tokens/s",
        "−9 %, within the band",
        "7.1 GB/s",
        "98 MB a token",
        "0.31 s          0.26 s predicted",
        "+0.90  took 0.9 of 2 cores",
        "+2.10  82 % of its usual speed",
        "+0.31  320 deep, 200 expected",
        "−1.20",
        FORECAST.verify,
    ):
        assert words in text
    assert "bytes" not in text  # nothing of that kind was observed


def test_a_part_that_is_nothing_has_no_sign() -> None:
    text = speed_text(replace(REPORT, residual=replace(PARTS, context_s=-1e-7))).plain
    assert " 0.00  320 deep" in text


def test_threads_that_went_to_others_are_told() -> None:
    assert "on 1, not 2 threads by now" in speed_text(replace(REPORT, threads=1)).plain
    assert "by now" not in speed_text(REPORT).plain


REPORTS = st.builds(
    replace,
    st.just(REPORT),
    live=st.booleans(),
    tokens_per_s=st.none() | st.floats(0.1, 9_999),
    ttft_s=st.none() | st.floats(0, 9_999),
    depth=st.floats(0, 131_072),
    threads=st.none() | st.integers(1, 64),
    observed=st.builds(
        Observed, st.floats(0.2, 99), st.integers(1, 64), st.floats(0, 64), st.none() | st.floats(0.1, 1)
    ),
)


@given(REPORTS)
def test_any_report_fits_sixty_columns(report: SpeedReport) -> None:
    if report.tokens_per_s is None:
        report = replace(report, residual=None)
    before_the_basis = speed_text(report).plain.partition("Predicted from")[0]
    assert max(map(cell_len, before_the_basis.split("\n"))) <= 54


def test_what_is_not_known_is_said_with_the_way_to_know_it() -> None:
    assert speed_text(SpeedReport()).plain == NOTHING_YET
    text = speed_text(SpeedReport(unknown="Speed unknown: localchat probe [bold]", tokens_per_s=12.0)).plain
    assert "localchat probe [bold]" in text
    assert "12.0 tokens/s" in text


async def test_the_panel_is_live_and_keeps_the_last_reply(
    chatting: Any, predicting: Any, gated: Any, until: Any
) -> None:
    model = gated(COUNTS, *WORDS, END)
    async with chatting(program=predicting(model)) as (chat, pilot):
        chat.prompt.put("Hi")
        await pilot.press("enter")
        await until(pilot, lambda: chat.turns.speed_report().tokens == 20)
        await pilot.press("f4")
        panel = chat.app.screen
        assert isinstance(panel, SpeedPanel)
        assert "so far" in panel._text.content.plain
        model.gate.set()
        await until(pilot, lambda: not chat.turns.running)
        panel._refresh_report()
        assert "72.4 tokens/s   −9 %" in panel._text.content.plain
        await pilot.press("f4")
        assert chat.app.screen is chat
        await chat._commands.do_speed("")
        await pilot.pause()
        assert "72.4 tokens/s" in chat.app.screen._text.content.plain


async def test_before_anything_was_said_the_panel_says_so(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("f4")
        assert chat.app.screen._text.content.plain == NOTHING_YET
        await pilot.press("escape")
        assert chat.app.screen is chat


# -- the status line and the footer


def test_the_rate_stands_beside_its_band() -> None:
    status = Status("writing", 72.4, 1_204, 8_192, "smollm2-135m", "Q4_1", "70–95")
    assert status_line(status, 100).plain.startswith("writing · 72.4 tokens/s (predicted 70–95) ")
    assert status_line(status, 58).plain.startswith("writing · 72.4 tokens/s ")
    assert "predicted" not in status_line(replace(status, tokens_per_s=None), 100).plain


async def test_the_footer_scores_the_reply(chatting: Any, predicting: Any, say: Any) -> None:
    async with chatting(program=predicting()) as (chat, pilot):
        await say(chat, pilot, "Hi")
        footer = chat.transcript.last_reply()._footer.content.plain
        assert "72.4 tokens/s, −9 % of predicted" in footer


@given(rate=st.floats(0.1, 9_999), low=st.floats(0.1, 100), high=st.floats(100, 9_999))
def test_a_guess_from_other_processors_is_never_scored(rate: float, low: float, high: float) -> None:
    guess = replace(FORECAST, guessed=True, low=low, high=high)
    text = speed_text(replace(REPORT, forecast=guess, tokens_per_s=rate, residual=None)).plain
    assert "band" not in text
    assert "%" not in text
    assert "typical processors" in text
    assert expected(guess, 500) == (NOT_MEASURED,)


async def test_the_footer_and_the_status_line_do_not_score_a_guess(
    chatting: Any, predicting: Any, say: Any
) -> None:
    class Guessing(FakeForecaster):
        def forecast(self, prompt_tokens: int, cached_tokens: int) -> Forecast | None:
            return replace(FORECAST, guessed=True)

    async with chatting(program=predicting(known=Guessing())) as (chat, pilot):
        await say(chat, pilot, "Hi")
        assert "72.4 tokens/s" in chat.transcript.last_reply()._footer.content.plain
        assert "predicted" not in chat.transcript.last_reply()._footer.content.plain
        assert chat.status.status.predicted == ""


async def test_without_a_forecast_nothing_is_compared(chatting: Any, predicting: Any, say: Any) -> None:
    async with chatting(program=predicting(known=FakeForecaster(knows=False))) as (chat, pilot):
        await say(chat, pilot, "Hi")
        assert "predicted" not in chat.transcript.last_reply()._footer.content.plain
        assert chat.turns.speed_report().tokens_per_s == 72.4


# -- before sending


async def test_a_pause_in_typing_shows_what_sending_would_cost(
    chatting: Any, predicting: Any, until: Any, say: Any
) -> None:
    program = predicting()
    async with chatting(program=program) as (chat, pilot):
        await until(pilot, lambda: chat.status.status.state == "ready")
        chat.prompt.put("x" * 400)
        await until(pilot, lambda: chat.status.status.estimate)
        assert chat.status.content.plain.startswith("≈ 0.3 s to the first word · 70–95 tokens/s")
        assert program.forecaster.asked == [(110, 0)]
        chat.prompt.put("")
        await until(pilot, lambda: not chat.status.status.estimate)
        await say(chat, pilot, "Hi")
        chat.prompt.put("y" * 40)
        await until(pilot, lambda: chat.status.status.estimate)
        assert program.forecaster.asked[-1] == (160, 140)  # the last turn is in the cache


async def test_commands_and_edits_are_no_prompts(chatting: Any, predicting: Any) -> None:
    async with chatting(program=predicting()) as (chat, _):
        chat.prompt.put("/help")
        assert chat._typed_bytes() == 0
        chat.prompt.put("héllo")
        assert chat._typed_bytes() == 6


def test_the_end_is_told_where_it_is_bounded() -> None:
    assert expected(FORECAST) == ("≈ 0.3 s to the first word", "70–95 tokens/s")
    assert expected(FORECAST, 160)[2] == "done in ≈ 2.3 s"
    noon_s = time.mktime((2026, 1, 1, 12, 0, 0, 0, 0, 0))
    assert expected(FORECAST, 80 * 600, noon_s)[2] == "done by ≈ 12:10"


@given(st.integers(0, 10_000), st.integers(0, 10_000))
def test_more_text_is_more_tokens(nbytes: int, more: int) -> None:
    assert Typed(nbytes).prompt_tokens <= Typed(nbytes + more).prompt_tokens


def test_figures_in_words() -> None:
    assert [band_text(70.4, 94.6), band_text(1.25, 2.0), band_text(900, 1_250)] == [
        "70–95",
        "1.2–2.0",
        "900–1,250",
    ]
    assert [percent_text(p) for p in (4.2, -13.1, -0.2, 0.0)] == ["+4 %", "−13 %", "+0 %", "+0 %"]


# -- how it looks


@pytest.mark.parametrize("size", [(100, 30), (60, 20), (40, 10)], ids=["normal", "narrow", "little"])
def test_the_panel(make_program: Any, snap_compare: Any, size: tuple[int, int]) -> None:
    from localchat.tui.app import ChatApp

    async def show(pilot: Any) -> None:
        pilot.app.push_screen(SpeedPanel(lambda: REPORT))
        await pilot.pause()

    assert snap_compare(ChatApp(make_program()), terminal_size=size, run_before=show)
