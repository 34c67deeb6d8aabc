"""What is expected of a model here: file, machine and threads decide; nothing is made up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from bandwidth_model.calibrate import Run
from bandwidth_model.devices import find_device
from bandwidth_model.predict import Conditions, predict
from bandwidth_model.rates import Rates, datasheet_rates, typical_rates
from bandwidth_model.reading import read_shape
from bandwidth_model.shape import ModelShape
from localchat.forecast import USUAL_REPLY_TOKENS, ModelForecaster
from router.backend import ModelInfo
from router.forecaster import Observed
from router.request import Finished, Timings, Usage
from tests.bandwidth_model.tiny_gguf import gguf_bytes

INFO = ModelInfo("m", "Q4_1", 10, 10, 64, 64, decode_threads=1, prefill_threads=4, engine="llama_cpp")
DEVICE = find_device("Raspberry Pi 5")


class Known:
    def __init__(self) -> None:
        self.learned: list[Run] = []

    def learn(self, runs: Iterable[Run], source: str) -> None:
        assert source == "reply"
        self.learned += runs

    def rates(self, threads: int | None = None, shape: ModelShape | None = None) -> Rates:
        return datasheet_rates(DEVICE, threads=threads)


def forecaster(
    folder: Path,
    speed: Known | None = None,
    info: ModelInfo | None = INFO,
    *,
    content: bytes = gguf_bytes(),
    gpu_layers: int = 0,
) -> ModelForecaster:
    path = folder / "m.gguf"
    path.write_bytes(content)
    known = speed or Known()
    return ModelForecaster(
        "my model", path, "f16", lambda: known, lambda: info, lambda: None, gpu_layers=gpu_layers
    )


def test_it_is_the_prediction_for_the_middle_of_a_usual_reply(tmp_path: Path) -> None:
    forecast = forecaster(tmp_path).forecast(500, 100)
    assert forecast
    shape, depth = read_shape(tmp_path / "m.gguf"), 500 + USUAL_REPLY_TOKENS / 2
    reply = predict(shape, Known().rates(1), Conditions(depth, kv_type="f16"))
    prompt = predict(shape, Known().rates(4), Conditions(500, 400, "f16"))
    assert (forecast.depth, forecast.threads, forecast.tier) == (depth, 1, "datasheet")
    assert forecast.decode_tokens_per_s == reply.decode_tokens_per_s
    assert (forecast.low, forecast.high) == (reply.low, reply.high)
    assert (forecast.prefill_s, forecast.ttft_s) == (prompt.warm.prefill_s, prompt.warm.ttft_s)
    assert forecast.bytes_per_token >= shape.bytes_per_token
    assert forecast.terms.total_s == pytest.approx(1 / forecast.decode_tokens_per_s)
    assert forecast.verify == "localchat bench 'my model' --depths 600 --threads 1"
    assert "Raspberry Pi 5" in forecast.basis[0]


def test_what_rests_on_other_processors_says_so_and_names_the_way_out(tmp_path: Path) -> None:
    class Unknown(Known):
        def rates(self, threads: int | None = None, shape: ModelShape | None = None) -> Rates:
            return typical_rates(threads or 1)

    forecast = forecaster(tmp_path, Unknown()).forecast(64, 0)
    assert forecast
    assert forecast.guessed
    assert "localchat calibrate" in forecast.basis[0]


def test_what_is_cached_brings_the_first_word_nearer_and_changes_nothing_else(tmp_path: Path) -> None:
    known = forecaster(tmp_path)
    whole, rest = known.forecast(640, 0), known.forecast(640, 600)
    assert whole
    assert rest
    assert rest.ttft_s < whole.ttft_s
    assert rest.decode_tokens_per_s == whole.decode_tokens_per_s
    assert known.forecast(640, 640)  # nothing left to compute is no division by zero


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (lambda folder: forecaster(folder, gpu_layers=-1), "GPU"),
        (lambda folder: forecaster(folder, content=b"no model"), "m.gguf"),
        (lambda folder: forecaster(folder, info=None), ""),
    ],
)
def test_where_nothing_is_known_nothing_is_said_but_why(tmp_path: Path, known: object, why: str) -> None:
    assert callable(known)
    unsure: ModelForecaster = known(tmp_path)
    assert unsure.forecast(64, 0) is None
    assert why in unsure.unknown
    assert bool(unsure.unknown) == bool(why)


def test_the_terms_at_the_predicted_depth_are_the_predicted_ones(tmp_path: Path) -> None:
    known = forecaster(tmp_path)
    assert known.terms_at(10) is None
    forecast = known.forecast(64, 0)
    assert forecast
    assert known.terms_at(forecast.depth) == forecast.terms
    assert known.terms_at(0) == replace(forecast.terms, kv_s=0.0)


CALM = Observed(seconds=3.0, cores=2)


def finished(tokens: int = 100, rate: float = 20.0) -> Finished:
    return Finished("stop", Usage(64, 0, tokens), Timings(decode_tokens_per_s=rate))


def learned(folder: Path, ended: Finished, observed: Observed) -> list[Run]:
    speed = Known()
    knows = forecaster(folder, speed)
    forecast = knows.forecast(64, 0)
    assert forecast
    knows.learn(forecast, ended, observed)
    return speed.learned


def test_a_reply_is_learned_from_at_the_depth_it_really_had(tmp_path: Path) -> None:
    (run,) = learned(tmp_path, finished(), CALM)
    assert (run.threads, run.depth, run.token_s) == (1, 64 + 100 / 2, 1 / 20.0)
    assert run.identity == read_shape(tmp_path / "m.gguf").identity


@pytest.mark.parametrize(
    ("ended", "observed"),
    [
        (finished(tokens=5), CALM),
        (finished(rate=0.0), CALM),
        (finished(), replace(CALM, others_cores=0.5)),
        (finished(), replace(CALM, clock=0.7)),
    ],
)
def test_nothing_is_learned_from_short_or_disturbed_replies(
    tmp_path: Path, ended: Finished, observed: Observed
) -> None:
    assert learned(tmp_path, ended, observed) == []
