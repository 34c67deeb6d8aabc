"""What is found, in every part of a request and however it is spelled; and what is left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.privacy import Kind, scan, scan_text
from router.privacy.folding import fold
from router.privacy.numbers import iban_checks, luhn
from router.request import ChatRequest, Message, ResponseFormat, Sampling, Tools
from tests.router.privacy.values import EXAMPLES, KEYS, PAIRS, PRIVATE_KEY

SURROUNDINGS = ["{}", "It is {}, I think.", "({})", "“{}”", "a: {}\nb: 2"]


@pytest.mark.parametrize(("kind", "value"), PAIRS)
@pytest.mark.parametrize("around", SURROUNDINGS)
def test_a_value_is_found_whole(kind: Kind, value: str, around: str) -> None:
    text = around.format(value)
    (hit,) = scan_text(text)
    assert hit.kind == kind
    assert value in text[hit.start : hit.end]
    assert hit.end - hit.start <= len(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("postgres://app:s3cr3t@db.example/x", "s3cr3t"),
        ("DB_PASSWORD=hunter2hunter", "hunter2hunter"),
        ('{"api_key": "q1w2e3r4t5y6"}', "q1w2e3r4t5y6"),
        ("The password is tr0ub4dor-and-3.", "tr0ub4dor-and-3."),
        ("Authorization: Bearer abcdefgh.ijk", "abcdefgh.ijk"),
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "wJalrXUtnFEMI/K7MDENG"),
    ],
)
def test_a_password_is_told_by_what_stands_beside_it(text: str, value: str) -> None:
    assert [(text[hit.start : hit.end], hit.kind) for hit in scan_text(text)] == [(value, "password")]


@pytest.mark.parametrize(
    "text",
    [
        "Call me on 467 3395.",
        "fax: 655437108",
        "416 60 039 office",
        "Can someone call me on 94727916?",
        "3660170548-Fax",
        "They're not answering at 71-33-52-22",
        "My SSN is 536221234",
        "My card 4111 1111 1111 1112 was declined",
        "Use this IBAN: GB29 NWBK 6016 1331 9268 18",
    ],
)
def test_the_word_for_it_makes_up_for_a_form_or_checksum(text: str) -> None:
    assert len(scan_text(text)) == 1
    digits = "".join(character for character in text if character.isdigit() or character in " -")
    assert not scan_text(digits)


@pytest.mark.parametrize(
    "text",
    [
        "On 2024-05-06 at 11:34:35, or 06.05.2024, call 1 000 000 people.",
        "Version 10.0.19041.1234 of 192.168.100.20 called from 10.20.30.40",
        "pi is 3.14159265358979 and 0.4111111111111111 is a float",
        "order 12345678, invoice 2023-0001, ISBN 978-3-16-148410-0",
        "550e8400-e29b-41d4-a716-446655440000",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "000-12-3456 666-12-3456 123-00-4567 123-45-0000 900-12-3456",
        "4111111111111112",
        "GB29 NWBK 6016 1331 9268 18 and GB rules",
        "git clone git@github.com:someone/thing.git and logo@2x.png, user@host, @decorator",
        "password = os.environ['DB_PASSWORD1'], token = base64.b64decode(data)",
        "password: ${PASSWORD1}, api_key: <your-key-1>, secret=xxxxxxxx1, password: your-password1",
        "max_tokens: 4096, secretary: 12345678a, the token is invalid",
        "https://user@host/path and https://host:8080/a@b",
        "sk-learn is short for scikit-learn; eyJustAWord.eyAnother.word",
        "100 200 300 400 500 600 700 800 900 110 120 130",
        "f(12) = 345 - 678, $541-714, 1 + 2 = 3",
        "The call took 12345678 ns, was called 10 000 000 times, with 1000000 work items",
        "message 12345678 of 87654321, text 1234567 home directories",
    ],
)
def test_what_looks_a_little_alike_is_left_alone(text: str) -> None:
    assert [text[hit.start : hit.end] for hit in scan_text(text)] == []


DISGUISES = {
    "no width": lambda value: "\u200b".join(value),
    "soft hyphens": lambda value: "\u00ad".join(value),
    "wide": lambda value: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in value),
    "struck through": lambda value: "\u0336".join(value),
    "escaped": lambda value: "".join(f"\\u{ord(c):04x}" for c in value),
    "escaped twice": lambda value: "".join(f"\\\\u{ord(c):04x}" for c in value),
    "other spaces and dashes": lambda value: value.replace(" ", "\u00a0").replace("-", "\u2011"),
    "other digits": lambda value: value.translate({48 + n: 0x0660 + n for n in range(10)}),
}


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if kind != "private key"])
def test_another_spelling_hides_nothing(kind: Kind, disguise: str) -> None:
    value = DISGUISES[disguise](EXAMPLES[kind][0])
    text = f"über {value}, then"
    (hit,) = scan_text(text)
    assert (text[hit.start : hit.end], hit.kind) == (value, kind)


@given(st.text(), st.sampled_from(PAIRS), st.text())
def test_a_place_in_folded_text_leads_back(before: str, pair: tuple[Kind, str], after: str) -> None:
    folded = fold(f"{before}{pair[1]}{after}")
    at = folded.text.find("@")
    for start in range(len(folded.text)):
        first, last = folded.span(start, start + 1)
        assert 0 <= first < last <= len(before + pair[1] + after)
    if "@" in pair[1] and "%" not in before and "\\" not in before and "@" not in fold(before).text:
        start, end = folded.span(at, at + 1)
        assert (before + pair[1] + after)[start:end] == "@"


def test_everything_that_leaves_is_looked_through() -> None:
    request = ChatRequest(
        (
            Message("system", "The owner is ada@example.org"),
            Message(
                "assistant",
                "",
                tool_calls='[{"function": {"arguments": "{\\"to\\": \\"bob@example.org\\"}"}}]',
            ),
            Message("tool", "sent", tool_call_id="call-cyd@example.org"),
        ),
        Sampling(stop=("dan@example.org",)),
        ResponseFormat("regex", "eve@example.org"),
        Tools('[{"description": "asks fay@example.org"}]', '"gil@example.org"'),
    )
    found = scan(request)
    assert [finding.place.field for finding in found] == [
        "content",
        "tool_calls",
        "tool_call_id",
        "tools",
        "tool_choice",
        "response_format",
        "stop",
    ]
    assert found.counts == {"email": 7}
    assert str(found) == "7 e-mail addresses"
    assert "example.org" not in repr(found)


def test_findings_name_the_service_and_count_by_kind() -> None:
    text = f"{KEYS[0]} {EXAMPLES['card'][0]} {PRIVATE_KEY} {EXAMPLES['card'][1]}"
    found = scan(ChatRequest((Message("user", text),)))
    assert [finding.what for finding in found] == [
        "Anthropic key",
        "Visa card",
        "RSA private key",
        "Visa card",
    ]
    assert str(found) == "1 private key, 1 access key, 2 card numbers"
    assert not scan(ChatRequest((Message("user", "hello"),)))


def test_a_block_that_is_cut_off_is_found_as_far_as_it_goes() -> None:
    text = f"Here: {PRIVATE_KEY[:100]}"
    (hit,) = scan_text(text)
    assert text[hit.start : hit.end] == PRIVATE_KEY[:100]


@given(st.integers(min_value=10**11, max_value=10**18 - 1))
def test_a_checksum_sees_every_changed_digit(number: int) -> None:
    check = next(digit for digit in "0123456789" if luhn(f"{number}{digit}"))
    whole = f"{number}{check}"
    for at, digit in enumerate(whole):
        other = "1" if digit == "0" else "0"
        assert not luhn(whole[:at] + other + whole[at + 1 :])


@pytest.mark.parametrize("iban", EXAMPLES["iban"])
def test_two_characters_of_an_iban_changed_place(iban: str) -> None:
    number = iban.replace(" ", "").upper()
    assert iban_checks(number)
    for at in range(4, len(number) - 1):
        swapped = number[:at] + number[at + 1] + number[at] + number[at + 2 :]
        assert iban_checks(swapped) == (swapped == number)


SHAPES = [
    "a",
    "@",
    "a@a.",
    "1",
    "1 ",
    "411 ",
    "1-",
    "sk- ",
    "eyJ.",
    "://a:",
    "GB12 ",
    "password = ",
    "\u200b1",
    "\\",
]
SHAPES += ["authorization: bearer ", "-----BEGIN PRIVATE KEY-----!", "1\u0336", "+1 ", "(1) ", "phone "]


@pytest.mark.parametrize("shape", SHAPES)
def test_time_grows_with_length_only(shape: str) -> None:
    """Were it with the square, 200,000 characters would take minutes or hours, not a moment."""
    scan_text(shape * (200_000 // len(shape)))
