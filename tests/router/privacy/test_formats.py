"""Each row of the tables finds what it describes, and none can make a search slow."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.privacy import scan_text
from router.privacy.formats import Service, card_networks, iban_lengths, services
from router.privacy.numbers import luhn

DIGITS = st.characters(min_codepoint=48, max_codepoint=57)
LETTERS_AND_DIGITS = st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


@given(st.sampled_from(sorted(card_networks())), st.data())
def test_a_card_of_every_prefix_and_length_is_found(prefix: str, data: st.DataObject) -> None:
    network, lengths = card_networks()[prefix]
    length = data.draw(st.sampled_from(list(lengths)))
    rest = data.draw(st.text(DIGITS, min_size=length - len(prefix) - 1, max_size=length - len(prefix) - 1))
    number = next(each for each in (f"{prefix}{rest}{digit}" for digit in range(10)) if luhn(each))
    (hit,) = scan_text(f"It is {number}.")
    assert (hit.kind, number) == ("card", f"It is {number}."[hit.start : hit.end])
    assert network in {name for name, _ in card_networks().values()}


@given(st.sampled_from(sorted(iban_lengths())), st.data(), st.sampled_from(["", " ", "-"]))
def test_an_account_of_every_country_is_found(country: str, data: st.DataObject, gap: str) -> None:
    size = iban_lengths()[country] - 4
    account = data.draw(st.text(LETTERS_AND_DIGITS, min_size=size, max_size=size))
    unchecked = "".join(str(int(character, 36)) for character in f"{account}{country}00")
    number = f"{country}{98 - int(unchecked) % 97:02}{account}"
    written = gap.join(number[at : at + 4] for at in range(0, len(number), 4))
    text = f"Pay to {written}, please"
    (hit,) = scan_text(text)
    assert (hit.kind, text[hit.start : hit.end]) == ("iban", written)


@pytest.mark.parametrize("service", services(), ids=lambda service: service.name)
def test_a_row_of_the_services_is_bounded_and_sourced(service: Service) -> None:
    outside_classes = re.sub(r"\[[^\]]*\]", "", service.rest.pattern.replace(r"\.", ""))
    assert not set(outside_classes) & set("*+|")
    assert all(len(begin) >= 2 for begin in service.begins)
    assert service.source.startswith("https://")


def test_no_two_services_begin_alike() -> None:
    begins = [begin for service in services() for begin in service.begins]
    assert len({*begins}) == len(begins)
