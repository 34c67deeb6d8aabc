"""The form for sampling parameters and the system prompt."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localchat.errors import UsageError
from localchat.tui.parameters import FIELDS, field_text, read_fields
from router.request import Sampling

SAMPLINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.2, 1.5]),
    top_p=st.sampled_from([0.1, 0.95, 1.0]),
    top_k=st.integers(0, 200),
    min_p=st.sampled_from([0.0, 0.05]),
    repeat_penalty=st.sampled_from([1.0, 1.1]),
    frequency_penalty=st.sampled_from([0.0, 0.5]),
    seed=st.none() | st.integers(0, 99),
    max_tokens=st.none() | st.integers(1, 999),
    stop=st.lists(st.sampled_from(["\n", "END", "a b"]), max_size=2).map(tuple),
)


@given(SAMPLINGS)
def test_what_the_form_shows_it_reads_back(sampling: Sampling) -> None:
    assert read_fields(sampling, {name: field_text(sampling, name) for name in FIELDS}) == sampling


@pytest.mark.parametrize(
    ("name", "text"), [("temperature", "9"), ("temperature", "warm"), ("top_k", "1.5"), ("max_tokens", "0")]
)
def test_wrong_values_are_named(name: str, text: str) -> None:
    with pytest.raises(UsageError, match=name):
        read_fields(Sampling(), {name: text})


async def test_applying_changes_the_next_request(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await pilot.press("f3")
        panel = chat.app.screen
        panel.query_one("#temperature").value = "1.25"
        panel.query_one("#seed").value = "7"
        panel.query_one("#system").text = "Be brief."
        await pilot.press("ctrl+s")
        await say(chat, pilot, "Hi")
        request = chat.program.model.requests[-1]
        assert (request.sampling.temperature, request.sampling.seed) == (1.25, 7)
        assert (request.messages[0].role, request.messages[0].content) == ("system", "Be brief.")


async def test_a_wrong_value_stays_in_the_form_with_the_reason(chatting: Any) -> None:
    async with chatting() as (chat, pilot):
        before = chat.session.sampling
        await pilot.press("f3")
        panel = chat.app.screen
        panel.query_one("#top_p").value = "2"
        await pilot.press("ctrl+s")
        assert chat.app.screen is panel
        assert "top_p must be" in panel.query_one("#parameter-error").content.plain
        await pilot.press("escape")
        assert chat.session.sampling == before


async def test_the_system_command(chatting: Any, say: Any) -> None:
    async with chatting() as (chat, pilot):
        await say(chat, pilot, "/system Talk like a pirate")
        assert chat.session.system == "Talk like a pirate"
        await say(chat, pilot, "/system")
        assert chat.app.screen.query_one("#system").has_focus
