"""An error says what happened and what to do next."""

from __future__ import annotations

import pytest

from router.errors import BackendCrashed, ContextOverflow, InvalidRequest, ModelUnavailable, RouterError


@pytest.mark.parametrize("kind", [RouterError, InvalidRequest, ModelUnavailable, BackendCrashed])
def test_its_text_ends_with_the_next_step(kind: type[RouterError]) -> None:
    error = kind("It broke.", "Try again.")
    assert (str(error), error.message, error.next_step) == ("It broke. Try again.", "It broke.", "Try again.")
    assert str(kind("It broke.")) == "It broke."


def test_an_overflow_counts_what_is_too_many() -> None:
    error = ContextOverflow(9_000, 8_192, 16)
    assert (error.prompt_tokens, error.window_tokens, error.reserved_tokens) == (9_000, 8_192, 16)
    assert "9,000 tokens plus 16 reserved" in error.message
    assert "8,192 (824 too many)" in error.message
    assert "--ctx" in str(error)
    assert "reserved" not in str(ContextOverflow(9_000, 8_192))
