"""Made-up values of every kind, put together so that no scanner takes this file for a leak."""

from __future__ import annotations

from router.privacy import Kind

LETTERS = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zC"


def word(length: int) -> str:
    return (LETTERS * (length // len(LETTERS) + 1))[:length]


def hexadecimal(length: int) -> str:
    return ("0123456789abcdef" * (length // 16 + 1))[:length]


KEYS = [
    "sk-" + "ant-api03-" + word(80),
    "sk-" + "or-v1-" + hexadecimal(64),
    "sk-" + "proj-" + word(64),
    "sk-" + word(48),
    "AK" + "IA" + "IOSFODNN7EXAMPLE",
    "gh" + "p_" + word(36),
    "github" + "_pat_" + word(80),
    "glpat" + "-" + word(20),
    "AI" + "za" + word(35),
    "xox" + "b-" + "123456789012-" + word(24),
    "sk" + "_live_" + word(24),
    "wh" + "sec_" + word(32),
    "ey" + "J" + word(20) + ".ey" + "J" + word(40) + "." + word(43),
    "hf" + "_" + word(34),
    "np" + "m_" + word(36),
    "pypi-" + "AgEIcHlwaS5vcmc" + word(80),
    "SG" + "." + word(22) + "." + word(43),
    "dop" + "_v1_" + hexadecimal(64),
    "gs" + "k_" + word(52),
    "AGE-SECRET-" + "KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" + "QPZRY9X8GF2TVDW0S3JN54KHCE",
]
PRIVATE_KEY = (
    "-----BEGIN RSA " + f"PRIVATE KEY-----\n{word(64)}\n{word(64)}\n-----END RSA " + "PRIVATE KEY-----"
)

EXAMPLES: dict[Kind, list[str]] = {
    "private key": [PRIVATE_KEY],
    "key": KEYS,
    # The issuers' own numbers for tests; without a word before them
    "card": [
        "4111111111111111",
        "4111 1111 1111 1111",
        "5555-5555-5555-4444",
        "3782 822463 10005",
        "6011000990139424",
        "3530111333300000",
        "30569309025904",
        "2223003122003222",
    ],
    # Examples of https://www.swift.com/resource/iban-registry-pdf
    "iban": [
        "GB29 NWBK 6016 1331 9268 19",
        "DE89370400440532013000",
        "NO9386011117947",
        "MT84MALT011000012345MTLCAST001S",
        "fr1420041010050500013m02606",
    ],
    "ssn": ["536-22-1234", "536 22 1234", "912-70-1234"],
    "email": [
        "ada@example.org",
        "o'brien+tag@mail.example.co.uk",
        "ünï@bücher.example",
        "a_b-c@xn--bcher-kva.example",
    ],
    "phone": [
        "+46 (0)8 928 571 38",
        "+14155550132",
        "(415) 555-0132",
        "415-555-0132 x77",
        "0044 20 7946 0958",
        "0490 75 40 81",
        "01.84.17.61.18",
        "(08) 8747 6301",
    ],
}
PAIRS = [(kind, value) for kind, values in EXAMPLES.items() for value in values]
"""Without passwords: those are told by what stands beside them."""
