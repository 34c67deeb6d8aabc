"""What is sent again, and when."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cloud.retry import Retries, retry_after_s
from router.errors import CloudBusy, CloudCutOff, CloudFault, CloudTimeout, CloudUnreachable, InvalidRequest

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@given(st.integers(1, 2), st.floats(0, 1))
def test_waits_double_and_differ_by_chance(failures: int, chance: float) -> None:
    wait_s = Retries().wait_s(CloudFault("x"), failures, 100, chance)
    assert wait_s is not None
    assert 0.25 * 2 ** (failures - 1) <= wait_s <= 0.5 * 2 ** (failures - 1)


@given(st.floats(0, 1))
def test_a_wait_that_is_asked_for_is_never_shortened(chance: float) -> None:
    wait_s = Retries().wait_s(CloudBusy("x", retry_after_s=7), 1, 100, chance)
    assert wait_s is not None
    assert 7 <= wait_s <= 7.5


def test_when_it_gives_up() -> None:
    retries = Retries()
    assert retries.wait_s(CloudFault("x"), 3, 100, 0) is None
    assert retries.wait_s(CloudFault("x"), 1, 0.4, 0) is None
    assert retries.wait_s(CloudBusy("x", retry_after_s=200), 1, 100, 0) is None
    for error in (
        InvalidRequest("x"),
        CloudTimeout("x"),
        CloudCutOff("x"),
        CloudUnreachable("x", may_pass=False),
    ):
        assert retries.wait_s(error, 1, 100, 0) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30 GMT"}, 30),
        ({"retry-after": "Wed, 31 Dec 2025 00:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "9" * 400}, None),
        ({"retry-after": "99999999999"}, 86_400),
        ({"retry-after": "Thu, 01 Jan 2026 00:00:30"}, None),  # no time zone
    ],
)
def test_how_servers_ask_for_a_wait(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_s(headers, NOW) == seconds
