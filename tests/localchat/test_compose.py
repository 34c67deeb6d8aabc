"""The one place where parts are joined: settings reach them, models are exchanged, nothing loads unasked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from localchat.compose import Program, build
from localchat.compose.clouds import build_cloud
from localchat.engines.process import EngineModel
from localchat.errors import HistoryError, UsageError, WeightsError
from localchat.paths import Paths
from localchat.settings import CloudSettings, EngineSettings, Settings
from router.dispatch import Dispatch
from router.errors import ModelUnavailable
from router.request import ChatRequest, Failed, Message, Sampling
from router.scripted import ScriptedBackend
from tests.bandwidth_model.tiny_gguf import gguf_bytes


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "config", tmp_path / "data", tmp_path / "cache")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    for name in ("one", "two"):
        (tmp_path / f"{name}.gguf").write_bytes(gguf_bytes())
    engine = EngineSettings(ctx=64, threads=1, prefill_threads=2, kv_type="q8_0", lora_scale=0.5)
    return Settings(str(tmp_path / "one.gguf"), "Be brief.", engine, Sampling(seed=3))


@pytest.fixture
async def program(settings: Settings, paths: Paths) -> AsyncIterator[Program]:
    program = build(settings, paths, incognito=True)
    yield program
    await program.close()


def engine_of(program: Program) -> EngineModel:
    assert isinstance(program.model, EngineModel)
    return program.model


async def test_settings_reach_the_parts_and_nothing_is_loaded(
    program: Program, settings: Settings, paths: Paths, tmp_path: Path
) -> None:
    assert (program.session.system, program.session.sampling) == ("Be brief.", settings.sampling)
    engine = engine_of(program)
    assert (engine.model, engine.info, engine.pid) == ("one", None, None)
    options = engine._options
    assert (options.path, options.cache_folder) == (str(tmp_path / "one.gguf"), str(paths.cache))
    for name in ("ctx", "threads", "prefill_threads", "kv_type", "gpu_layers", "lora", "lora_scale"):
        assert getattr(options, name) == getattr(settings.engine, name)
    assert not paths.data.exists()  # incognito


async def test_a_history_is_made_where_the_paths_say(settings: Settings, paths: Paths) -> None:
    program = build(settings, paths)
    await program.close()
    await program.close()
    assert paths.history.is_file()
    with pytest.raises(HistoryError):
        program.history.latest()


@pytest.mark.parametrize("lora", ["~/a.gguf", "~nobody-of-that-name/a.gguf"])
async def test_an_adapter_may_lie_in_a_home(
    settings: Settings, paths: Paths, monkeypatch: pytest.MonkeyPatch, lora: str
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    program = build(replace(settings, engine=EngineSettings(lora=lora)), paths, incognito=True)
    assert engine_of(program)._options.lora == lora.replace("~/", "/home/me/")
    await program.close()


async def test_another_model_answers_and_the_conversation_goes_on(program: Program, tmp_path: Path) -> None:
    first = ScriptedBackend(["1"], loaded=True)
    program.model, program.session.dispatch = first, Dispatch(first)
    async for _ in program.session.send("one"):
        pass
    program.open_model = lambda _: ScriptedBackend(["2"])
    await program.use_model("other")
    assert not first.loaded
    async for _ in program.session.send("two"):
        pass
    assert [m.content for m in program.session.transcript()] == ["one", "1", "two", "2"]


async def test_without_such_a_model_the_present_one_stays(program: Program) -> None:
    before = program.model
    with pytest.raises(WeightsError, match="No weights are called"):
        await program.use_model("no-such-model")
    assert program.model is before


async def test_names_and_paths_open_models(program: Program, tmp_path: Path) -> None:
    await program.use_model(str(tmp_path / "two.gguf"))
    assert engine_of(program).model == "two"


def test_an_unknown_model_is_told_before_anything_is_made(settings: Settings, paths: Paths) -> None:
    with pytest.raises(WeightsError, match="No weights are called"):
        build(replace(settings, model="no-such-model"), paths)
    assert not paths.data.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b"not a model", "one.gguf", id="text"),
        pytest.param(gguf_bytes()[:-40], "Fetch the file again", id="cut"),
    ],
)
async def test_a_file_that_cannot_be_loaded_says_what_is_wrong_with_it(
    program: Program, tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "one.gguf").write_bytes(content)
    events = [e async for e in program.session.dispatch.stream(ChatRequest((Message("user", "hi"),)))]
    last = events[-1]
    assert isinstance(last, Failed)
    assert isinstance(last.error, ModelUnavailable)
    assert "one cannot be loaded: " in str(last.error)
    assert reason in str(last.error)


# -- a cloud, which nothing builds unasked


def test_a_program_has_no_cloud_even_where_one_is_configured(settings: Settings, paths: Paths) -> None:
    script = """
import sys
from pathlib import Path
from localchat.compose import build
from localchat.paths import Paths
from localchat.settings import CloudSettings, Settings
home = Path(sys.argv[2])
settings = Settings(model=sys.argv[1], cloud=CloudSettings(preset="openai"))
build(settings, Paths(home, home, home), incognito=True)
print(sorted(name for name in sys.modules if name.startswith(("router.cloud", "httpx", "keyring"))))
"""
    command = [sys.executable, "-c", script, settings.model, str(paths.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


async def test_a_cloud_is_built_as_the_settings_say() -> None:
    cloud = CloudSettings("vllm", "http://localhost:9", "m", "MY_KEY", 0.1, 1, 2, 3, 4, 2.0, None, 8.0)
    backend = build_cloud(Settings(cloud=cloud), {"MY_KEY": "k"})
    target = backend.target
    assert (backend.model, target.address.base_url, target.key_variable) == (
        "m",
        "http://localhost:9/v1",
        "MY_KEY",
    )
    waits = target.deadlines
    assert (waits.connect_s, waits.first_token_s, waits.idle_s, waits.total_s) == (1, 2, 3, 4)
    assert target.temperature == 0.1
    assert target.price is not None
    assert (target.price.input_usd_per_mtok, target.price.cached_usd_per_mtok) == (2.0, 2.0)
    assert build_cloud(
        Settings(cloud=CloudSettings(base_url="http://localhost:9", model="m"))
    ).target.provider
    await backend.close()


@pytest.mark.parametrize(
    ("cloud", "words"),
    [
        (CloudSettings(), "No cloud is configured"),
        (CloudSettings(preset="opanai"), "Did you mean 'openai'?"),
        (CloudSettings(base_url="http://x.example", model="m"), "not encrypted"),
        (CloudSettings(preset="openai", input_usd_per_mtok=1.0), "Half of the cloud's price"),
    ],
)
def test_a_cloud_that_cannot_be_used_is_a_usage_error(cloud: CloudSettings, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_cloud(Settings(cloud=cloud))
    assert words in str(caught.value)
