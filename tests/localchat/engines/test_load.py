"""Loading: what is measured once and kept, what memory allows, and where it can be stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from localchat.engines import load
from localchat.engines.llama_cpp import LlamaRuntime
from localchat.engines.load import Engine, load_engine
from localchat.engines.protocol import LoadOptions
from localchat.engines.runtime import Aborted, LoadFailed
from router.request import Event, Progress
from tests.localchat.engines.tiny_model import CONTEXT


class Loading:
    """Loads the tiny model as on two cores, measuring what ``token_s`` says, and hears what is reported."""

    def __init__(self, path: Path, cache: Path) -> None:
        self.path, self.cache = path, cache
        self.events: list[Event] = []
        self.stop_at = ""
        self.token_s: list[float] = []
        self.engines: list[Engine] = []

    def __call__(self, **options: object) -> Engine:
        self.events.clear()
        values: dict[str, object] = {"cache_folder": str(self.cache), **options}
        engine = load_engine(LoadOptions(str(self.path), **values), self._report)  # type: ignore[arg-type]  # made from words
        self.engines.append(engine)
        return engine

    def _report(self, event: Event) -> bool:
        self.events.append(event)
        return not (isinstance(event, Progress) and event.stage == self.stop_at)

    def stages(self) -> list[str]:
        return [event.stage for event in self.events if isinstance(event, Progress)]

    @property
    def file(self) -> Path:
        return self.cache / "threads.json"


@pytest.fixture
def loading(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Loading]:
    monkeypatch.setattr(load, "usable_cores", lambda: 2)
    loading = Loading(tiny_model, tmp_path / "cache")

    def timed(runtime: LlamaRuntime, tokens: list[int]) -> float:
        runtime.eval(tokens)
        return loading.token_s.pop(0) if loading.token_s else 0.01

    monkeypatch.setattr(load, "_timed_eval", timed)
    # One thread for real: two would wait for each other where another program runs.
    monkeypatch.setattr(LlamaRuntime, "set_threads", lambda self, decode, prefill: None)
    yield loading
    for engine in loading.engines:
        engine.runtime.close()


@pytest.mark.parametrize(
    ("one_s", "two_s", "best"), [(0.02, 0.01, 2), (0.01, 0.02, 1), (0.01, 0.0099, 1), (0.01, 0.5, 1)]
)
def test_the_fastest_count_is_taken_and_fewer_threads_win_a_near_tie(
    loading: Loading, one_s: float, two_s: float, best: int
) -> None:
    measured = load.MEASURED_TOKENS + 2
    loading.token_s = [one_s] * measured + [9.9, *[two_s] * (measured - 1)]  # warming up does not count
    assert loading().decode.count == best


def test_threads_are_measured_once_and_kept(loading: Loading) -> None:
    first = loading()
    assert loading.stages().count("measure") == 2
    assert list(json.loads(loading.file.read_text()).values()) == [first.decode.count]
    second = loading()
    assert "measure" not in loading.stages()
    assert second.decode.count == first.decode.count


def test_what_a_person_sets_is_not_measured(loading: Loading) -> None:
    engine = loading(threads=1, prefill_threads=2)
    assert (engine.decode.count, engine.prefill.count) == (1, 2)
    assert "measure" not in loading.stages()
    assert not loading.file.exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"x": 3}', "\0", '{"x": [1]}'])
def test_a_damaged_cache_is_measured_anew(loading: Loading, content: str) -> None:
    loading()
    key = next(iter(json.loads(loading.file.read_text())))
    loading.file.write_text(content.replace("x", key.replace("\n", "\\n")))
    loading()
    assert "measure" in loading.stages()
    loading()
    assert "measure" not in loading.stages()


def test_a_folder_that_cannot_be_written_is_no_obstacle(loading: Loading) -> None:
    loading.cache = Path("/dev/null/cache")
    assert loading().decode.count in (1, 2)


@pytest.mark.parametrize("stage", ["load", "measure"])
def test_loading_stops_where_it_is_told_to(loading: Loading, stage: str) -> None:
    loading.stop_at = stage
    with pytest.raises(Aborted):
        loading()
    assert loading.stages().count(stage) == 1
    assert not loading.file.exists()
    loading.stop_at = ""
    assert loading().decode.count in (1, 2)


def test_a_file_larger_than_memory_is_refused_with_both_sizes(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load, "available_bytes", lambda: 100_000)
    with pytest.raises(LoadFailed, match=r"0\.00 GB"):
        loading()


def test_the_window_shrinks_to_what_memory_can_hold(
    loading: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = loading(threads=1)
    assert whole.runtime.window_tokens == CONTEXT
    per_token = whole.runtime.kv_bytes_per_token()
    monkeypatch.setattr(load, "available_bytes", lambda: load.SPARE_BYTES + 2000 * per_token)
    assert loading(threads=1).runtime.window_tokens == 2000
    assert loading(threads=1).info()["window_tokens"] == 2000
    monkeypatch.setattr(load, "available_bytes", lambda: 10**6)
    assert loading(threads=1).runtime.window_tokens == 512
    assert loading(threads=1, ctx=64).runtime.window_tokens == 64


def test_a_higher_count_that_paid_is_kept_for_the_next_time(loading: Loading) -> None:
    engine = loading()
    assert engine.known is not None
    engine.known.keep(1)
    busy = loading()
    assert busy.decode.count == 1
    busy.learn()
    assert list(json.loads(loading.file.read_text()).values()) == [1]
    busy.decode.settled = 2
    busy.learn()
    assert loading().decode.count == 2


def test_a_missing_file_says_why(loading: Loading, tmp_path: Path) -> None:
    loading.path = tmp_path / "missing.gguf"
    with pytest.raises(LoadFailed, match="No such file"):
        loading()
