"""Nothing that was found leaves as it is unless somebody saw it."""

from __future__ import annotations

import pytest

from router.privacy import scan
from router.privacy.scanning import Findings
from router.privacy.treatment import Profile, treatment
from router.request import ChatRequest, Message

FOUND = scan(ChatRequest((Message("user", "I am ada@example.org, 4111111111111111"),)))


@pytest.mark.parametrize("can_ask", [True, False])
@pytest.mark.parametrize("profile", ["ask", "redact", "keep-local"])
def test_a_request_without_any_is_sent(profile: Profile, can_ask: bool) -> None:
    assert treatment(profile, Findings(), can_ask=can_ask, flag="--privacy").action == "send"


@pytest.mark.parametrize(
    ("profile", "can_ask", "action"),
    [
        ("ask", True, "ask"),
        ("ask", False, "refuse"),
        ("redact", False, "redact"),
        ("keep-local", True, "keep local"),
    ],
)
def test_the_profile_decides(profile: Profile, can_ask: bool, action: str) -> None:
    found = treatment(profile, FOUND, can_ask=can_ask, flag="--privacy redact")
    assert found.action == action
    assert found.why.startswith("The request holds 1 card number, 1 e-mail address")
    assert ("--privacy redact" in found.why) == (action == "refuse")
