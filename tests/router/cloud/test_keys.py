"""Keys: found in the keyring, else in the variable; shown nowhere."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from router.cloud.keys import ApiKey, find_key, look_up_in_keyring
from router.errors import CloudMisconfigured

SECRET = "sk-test-0123456789"
PLACE = "api.openai.com"


def nothing(service: str, name: str) -> None:
    return None


def test_the_keyring_comes_before_the_variable() -> None:
    found = find_key(PLACE, "KEY", {"KEY": "sk-other"}, lambda service, name: SECRET)
    assert found.key == ApiKey(SECRET)
    assert found.source == "the keyring, for api.openai.com"
    found = find_key(PLACE, "KEY", {"KEY": f" {SECRET}\n"}, nothing)
    assert found.key == ApiKey(SECRET)
    assert found.source == "the environment variable KEY"


@pytest.mark.parametrize(("variable", "words"), [("KEY", "KEY is not set"), ("", "has none for")])
def test_no_key_says_where_it_was_looked_for(variable: str, words: str) -> None:
    found = find_key(PLACE, variable, {"KEY": " "}, nothing)
    assert found.key is None
    assert words in found.source


def test_no_repr_shows_it() -> None:
    key = ApiKey(SECRET)
    found = find_key(PLACE, "KEY", {"KEY": SECRET}, nothing)
    assert SECRET not in f"{key} {key!r} {found} {found!r} {[key]} {{1: key}}"
    assert key.reveal() == SECRET
    assert key.redact(b"you sent " + SECRET.encode()) == b"you sent [key]"


@pytest.mark.parametrize("secret", ["a b", "a\nb", "sk-ü", "x" * 5000, "a\x00b"])
def test_what_cannot_be_a_key_is_refused_without_being_quoted(secret: str) -> None:
    with pytest.raises(CloudMisconfigured) as caught:
        find_key(PLACE, "KEY", {"KEY": secret}, nothing)
    assert secret not in str(caught.value)


def test_the_keyring_is_optional_and_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)  # not installed
    assert look_up_in_keyring("localchat", PLACE) is None

    def locked(service: str, name: str) -> str:
        raise RuntimeError("locked")

    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=locked))
    assert look_up_in_keyring("localchat", PLACE) is None
    monkeypatch.setitem(sys.modules, "keyring", SimpleNamespace(get_password=lambda s, n: f"{s}/{n}"))
    assert look_up_in_keyring("localchat", PLACE) == "localchat/api.openai.com"
