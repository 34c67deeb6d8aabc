"""What the shipped weights say of questions, and laws of the features."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from router.difficulty import difficulty
from router.question import BUCKETS, HAND, READ_AT_END, READ_CHARACTERS, features

HARD = 0.5
PROMPTS = Path(__file__).parents[2] / "benchmarks" / "ordinary_prompts.toml"

# None of these is in ordinary_prompts.toml, which the weights were fitted to, but for those of the issue.
EASY = [
    "2+2",
    "what is 9 plus 4?",
    "hi",
    "hey, how is your day going?",
    "what is the capital of France?",
    "what's the capital of Peru?",
    "translate good morning to Spanish",
    "how do you say thank you in Dutch?",
    "tell me a joke about penguins",
    "write a short birthday card for my uncle",
    "who painted The Starry Night?",
    "thanks, that helped",
    "make that a bit shorter",
]
HARD_ONES = [
    "explain the mathematical basis of quantum entanglement",
    "Prove that every subgroup of a cyclic group is cyclic.",
    "Derive the Euler-Lagrange equation and apply it to a double pendulum.",
    "A bakery sells 240 rolls a day at $0.80 each. It raises the price by 15% and sells 12% fewer. "
    "Flour costs $55 a day and wages $80. By how much does the daily profit change, and how many days pay "
    "for a $600 oven?",
    "Design and implement a job queue in Python with retries, priorities, a dead letter queue and tests, "
    "and discuss how it behaves when two workers take the same job.",
    "Compare the causes of the French and the Russian revolution in detail and assess the role of finance.",
]


@pytest.mark.parametrize("text", EASY)
def test_small_asks_stay(text: str) -> None:
    assert difficulty(text) < HARD / 2


@pytest.mark.parametrize("text", HARD_ONES)
def test_hard_asks_go(text: str) -> None:
    assert difficulty(text) > HARD


def test_most_of_the_held_out_prompts_are_told_apart() -> None:
    held_out = tomllib.loads(PROMPTS.read_text(encoding="utf-8"))["held_out"]
    stay = np.mean([difficulty(text) < HARD for text in held_out["easy"]])
    go = np.mean([difficulty(text) >= HARD for text in held_out["hard"]])
    assert min(stay, go) >= 0.9


def test_nothing_of_the_held_out_prompts_was_learned_from() -> None:
    told = tomllib.loads(PROMPTS.read_text(encoding="utf-8"))
    train, held_out = ({*told[part]["easy"], *told[part]["hard"]} for part in ("train", "held_out"))
    assert not train & held_out


@settings(deadline=None)
@given(st.text())
def test_any_text_has_a_probability(text: str) -> None:
    chance = difficulty(text)
    assert 0 < chance < 1
    assert chance == difficulty(text)


@settings(deadline=None)
@given(st.text(max_size=300))
def test_features_are_bounded_and_each_bucket_comes_once(text: str) -> None:
    found = features(text)
    assert len(set(found.buckets.tolist())) == len(found.buckets)
    assert all(0 <= bucket < BUCKETS for bucket in found.buckets)
    assert float(np.linalg.norm(found.values)) <= 1 + 1e-6
    assert found.counts.shape == (len(HAND),)
    assert np.isfinite(found.counts).all()


@settings(deadline=None)
@given(st.text(max_size=50), st.integers(0, 10_000))
def test_the_middle_of_a_long_text_is_not_read(middle: str, filler: int) -> None:
    ends = "a" * READ_CHARACTERS, "b" * READ_AT_END
    assert difficulty((middle + "x" * (filler + 1)).join(ends)) == difficulty("xx".join(ends))


def test_the_forms_of_questions() -> None:
    options = "Which one?\nA. this\nB. that\nC. none\nD. all\nAnswer:"
    assert features(options).form == "options"
    assert (
        features("Ann has 3 boxes of 12 eggs each and drops one. How many eggs are left?").form
        == "quantities"
    )
    assert features("what is 3 + 4?").form == "plain"


def test_weights_are_not_loaded_before_they_are_needed() -> None:
    code = "import router.difficulty as d; print(d.shipped.cache_info().currsize)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
