"""Presets and prices are data with sources; a target joins them with what a person set."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.cloud.address import parse_base_url
from router.cloud.target import make_target, presets
from router.errors import CloudMisconfigured
from router.prices import Price, find_price, price_table
from router.request import ResponseFormat, Sampling, Usage

NAMES = {"localchat", "openai", "vllm", "sglang", "tgi", "ollama", "llama.cpp", "mlc", "custom"}


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_preset_is_sound(name: str) -> None:
    assert set(presets()) == NAMES
    preset = presets()[name]
    assert preset.source
    if name != "custom":
        assert parse_base_url(preset.base_url).base_url == preset.base_url
    dialect = preset.dialect
    assert dialect.token_limit in ("max_tokens", "max_completion_tokens")
    assert set(dialect.sampling.values()) <= {field.name for field in fields(Sampling)}
    assert set(dialect.constraints) <= {"regex", "lark", "gbnf"}
    assert ResponseFormat("regex", "x")
    assert isinstance(dialect.fixed_sampling, tuple)


def test_a_preset_is_enough_and_each_part_can_be_set() -> None:
    target = make_target("openai")
    assert (target.model, target.key_variable) == ("gpt-4.1-mini", "OPENAI_API_KEY")
    assert target.price == find_price("openai", "gpt-4.1-mini")
    target = make_target("openai", model="gpt-4o", key_variable="MINE", price=Price(1, 2, 3), temperature=0.1)
    assert (target.model, target.key_variable, target.price) == ("gpt-4o", "MINE", Price(1, 2, 3))
    assert str(target) == "openai: gpt-4o at https://api.openai.com/v1"


def test_a_key_does_not_go_elsewhere_because_an_address_was_changed() -> None:
    target = make_target("openai", base_url="https://other.example/v1")
    assert (target.key_variable, target.price) == ("", None)
    assert make_target("openai", base_url="https://other.example", key_variable="MINE").key_variable == "MINE"
    assert make_target("vllm", base_url="http://localhost:9000", model="m").key_variable == "VLLM_API_KEY"


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("opanai", "Did you mean 'openai'?"),
        ("zzz", "Known: openai"),
        ("custom", "base_url"),
        ("ollama", "model"),
    ],
)
def test_what_is_missing_is_named(preset: str, words: str) -> None:
    with pytest.raises(CloudMisconfigured) as caught:
        make_target(preset)
    assert words in str(caught.value)


# -- prices


def test_every_price_has_a_source_and_a_cheaper_cache() -> None:
    for price in price_table().values():
        assert price.source.startswith("https://")
        assert 0 < price.cached_usd_per_mtok < price.input_usd_per_mtok < price.output_usd_per_mtok


def test_a_snapshot_costs_what_its_model_costs_and_nothing_else_does() -> None:
    assert find_price("openai", "gpt-4.1-mini-2025-04-14") == find_price("openai", "gpt-4.1-mini")
    for model in ("gpt-4.1-mini-latest", "gpt-4.1-min", "my-gpt-4.1-mini", ""):
        assert find_price("openai", model) is None
    assert find_price("vllm", "gpt-4.1-mini") is None


COUNT = st.integers(0, 10**6)
PRICE = Price(2.0, 8.0, 0.5)


@given(COUNT, COUNT, COUNT)
def test_a_token_is_paid_for_once(fresh: int, cached: int, completion: int) -> None:
    cost = PRICE.cost_usd(Usage(fresh + cached, cached, completion))
    assert cost == pytest.approx((fresh * 2.0 + cached * 0.5 + completion * 8.0) / 1e6)
    assert cost <= PRICE.cost_usd(Usage(fresh + cached, 0, completion)) + 1e-12
