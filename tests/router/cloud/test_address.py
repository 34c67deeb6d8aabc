"""Addresses: encrypted unless on this machine, nothing in them that is secret, none of those that leak."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cloud.address import parse_base_url
from router.errors import CloudMisconfigured


@pytest.mark.parametrize(
    ("text", "base_url"),
    [
        ("https://api.openai.com/v1", "https://api.openai.com/v1"),
        ("https://api.openai.com/v1/", "https://api.openai.com/v1"),
        ("https://api.openai.com", "https://api.openai.com/v1"),
        ("https://api.openai.com/", "https://api.openai.com/v1"),
        ("https://API.OpenAI.com:443/v1", "https://api.openai.com:443/v1"),
        ("https://api.openai.com/v1/chat/completions", "https://api.openai.com/v1"),
        ("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1"),
        ("https://x.example/v1beta/openai/", "https://x.example/v1beta/openai"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"),
        ("http://localhost:11434/v1/", "http://localhost:11434/v1"),
        ("http://[::1]:8080/v1", "http://[::1]:8080/v1"),
        ("https://10.0.0.5:8000", "https://10.0.0.5:8000/v1"),
    ],
)
def test_what_a_person_writes_becomes_one_form(text: str, base_url: str) -> None:
    address = parse_base_url(text)
    assert address.base_url == base_url
    assert parse_base_url(address.base_url) == address
    assert address.completions_url == f"{base_url}/chat/completions"
    assert address.is_loopback == base_url.startswith("http:")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://api.openai.com/v1", "not encrypted"),
        ("http://192.168.1.7:11434", "not encrypted"),
        ("http://localhost.example.com", "not encrypted"),
        ("http://127.0.0.1.example.com", "not encrypted"),
        ("https://user:pass@api.openai.com", "user name or password"),
        ("https://sk-secret@api.openai.com", "user name or password"),
        ("https://api.openai.com/v1?key=1", "query"),
        ("https://api.openai.com/v1#x", "query or fragment"),
        ("https://169.254.169.254/v1", "no address of a cloud"),
        ("https://[fe80::1]/v1", "no address of a cloud"),
        ("https://[::ffff:169.254.169.254]/v1", "no address of a cloud"),
        ("https://[fd00:ec2::254]/", "no address of a cloud"),
        ("https://metadata.google.internal/", "no address of a cloud"),
        ("https://metadata.google.internal./", "no address of a cloud"),
        ("https://100.100.100.200/", "no address of a cloud"),
        ("https://2852039166/", "unusual way"),
        ("https://0xa9fea9fe/", "unusual way"),
        ("https://169.254.43518/", "unusual way"),
        ("http://0.0.0.0:8000", "where servers listen"),
        ("https://0.0.0.0:8000", "where servers listen"),
        ("ftp://api.openai.com", "not a web address"),
        ("api.openai.com", "not a web address"),
        ("", "not a web address"),
        ("https://", "not a web address"),
        ("https://x:99999/", "not a web address"),
        ("https://[::1", "not a web address"),
        ("https://a b.example", "characters that no address has"),
        ("https://exämple.com", "characters that no address has"),
        ("https://x.example/\n", "characters that no address has"),
        ("https://x.example/a/../b", "odd characters"),
        ("https://x.example/<b>", "odd characters"),
        ("https://-x.example/", "no valid host"),
    ],
)
def test_what_could_go_to_a_wrong_place_is_refused(text: str, words: str) -> None:
    with pytest.raises(CloudMisconfigured) as caught:
        parse_base_url(text)
    assert words in caught.value.message
    assert caught.value.next_step
    assert not {"pass", "sk-secret"} & set(str(caught.value).replace("@", " ").split())


@given(
    st.text(max_size=30) | st.text("https:/.@[]?#0123456789abcx", max_size=30).map(lambda t: f"https://{t}")
)
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    try:
        address = parse_base_url(text)
    except CloudMisconfigured:
        return
    assert parse_base_url(address.base_url) == address
