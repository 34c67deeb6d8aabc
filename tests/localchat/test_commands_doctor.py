"""``localchat doctor``: every finding has a state, a fault has a remedy and makes the exit code 1."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from localchat.commands import doctor
from localchat.weights import DEFAULT
from tests.localchat.command_line import run

BUILD = {"llama.cpp": "b1", "gpu": False, "features": "CPU : SSE3 = 1 | AVX = 1 | AVX2 = 0 | "}


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What asking llama.cpp for its build gives: the last of the list, an exception or its output."""
    answers: list[Any] = [json.dumps(BUILD).encode()]

    def ask(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        if isinstance(answers[-1], Exception):
            raise answers[-1]
        return subprocess.CompletedProcess(command, 0, answers[-1], b"a line\nlibgomp \xff is missing\n")

    fake = SimpleNamespace(run=ask, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(doctor, "subprocess", fake)  # only there: platform.platform() runs programs too
    return answers


def examined(home: Path) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit code, and state and text of each topic."""
    outcome = run(home, "doctor", "--json")
    assert outcome.err == ""
    return outcome.code, {f["topic"]: (f["state"], f["text"]) for f in json.loads(outcome.out)}


def test_a_sound_machine_is_0_and_writes_nothing_but_the_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_model", lambda _: iter(()))
    code, found = examined(tmp_path)
    assert code == 0
    assert found["engine"] == ("ok", "llama.cpp b1, GPU offload no")
    assert found["CPU features used"] == ("ok", "AVX, SSE3")
    assert found["settings"] == ("ok", f"{tmp_path}/config/config.toml (not there: defaults)")
    assert found["conversations"] == ("ok", f"{tmp_path}/data/history.db (made with the first message)")
    assert not {state for state, _ in found.values()} - {"ok", "hint"}
    assert list(tmp_path.iterdir()) == []


def test_the_listing_is_for_people(tmp_path: Path) -> None:
    lines = run(tmp_path, "doctor").out.splitlines()
    assert {line.split()[0] for line in lines} <= {"ok", "hint", "fault"}
    texts = [line.split("  ", 2) for line in lines]
    assert len(texts) == len(lines)


@pytest.mark.real_model
def test_the_default_model_is_found_and_verified(tmp_path: Path) -> None:
    code, found = examined(tmp_path)
    assert code == 0
    state, text = found["default model"]
    assert state == "ok"
    assert "98.4 MB, checksum right" in text


def test_a_missing_default_model_is_a_fault_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localchat.weights.catalog.installed_default", lambda: None)
    code, found = examined(tmp_path)
    assert code == 1
    state, text = found["default model"]
    assert (state, "localchat weights pull default" in text) == ("fault", True)
    assert run(tmp_path, "doctor").code == 1


def test_a_damaged_default_model_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from localchat.weights import Weights

    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF")
    damaged = Weights(DEFAULT.name, file, 4, "default", DEFAULT.sha256)
    monkeypatch.setattr("localchat.weights.catalog.installed_default", lambda: damaged)
    code, found = examined(tmp_path)
    assert code == 1
    assert "is damaged" in found["default model"][1]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"not JSON", "llama.cpp does not start: libgomp \ufffd is missing"),
        (b"", "llama.cpp does not start: libgomp \ufffd is missing"),
        (subprocess.TimeoutExpired("x", 60), "llama.cpp does not start within 60 s"),
    ],
)
def test_an_engine_that_does_not_start_is_a_fault(
    tmp_path: Path, engine: list[Any], answer: object, message: str
) -> None:
    engine.append(answer)
    code, found = examined(tmp_path)
    assert (code, found["engine"][0]) == (1, "fault")
    assert message in found["engine"][1]


def test_a_missing_package_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib import metadata

    def missing(name: str) -> NoReturn:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    code, found = examined(tmp_path)
    assert (code, found["textual"][0]) == (1, "fault")
    assert "not installed" in found["textual"][1]


def test_broken_settings_and_a_broken_history_are_faults(tmp_path: Path) -> None:
    (tmp_path / "config/config.toml").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/history.db").write_bytes(b"garbage " * 1000)
    code, found = examined(tmp_path)
    assert code == 1
    assert found["settings"][0] == "fault"
    assert found["conversations"][0] == "fault"
    assert "left untouched" in found["conversations"][1]


def test_a_home_that_cannot_be_written_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, found = examined(tmp_path / "file" / "home")
    assert (code, found["disk"][0]) == (1, "fault")
    assert f"{tmp_path}/file is not a folder you can write to" in found["disk"][1]


def test_a_store_that_is_there_is_opened_and_measured(tmp_path: Path) -> None:
    assert run(tmp_path, "history", "list").code == 0
    assert examined(tmp_path)[1]["conversations"] == ("ok", f"{tmp_path}/data/history.db, 0.1 MB")


# -- the cloud


@pytest.fixture
def no_keyring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.cloud.keys.look_up_in_keyring", lambda service, name: None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def with_cloud(home: Path, **settings: str) -> dict[str, tuple[str, str]]:
    (home / "config").mkdir(exist_ok=True)
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items())
    (home / "config/config.toml").write_text(f"[cloud]\n{lines}\n")
    return examined(home)[1]


def test_without_a_cloud_nothing_leaves_and_no_key_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> NoReturn:
        raise AssertionError("a key was read")

    monkeypatch.setattr("router.cloud.keys.find_key", asked)
    found = examined(tmp_path)[1]
    assert found["cloud"] == ("ok", "none configured: the modes auto and cloud ask a simulated one, here")
    assert "cloud key" not in found


@pytest.mark.usefixtures("no_keyring")
def test_the_configured_cloud_is_shown_and_where_its_key_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = with_cloud(tmp_path, preset="openai")
    assert found["cloud"] == ("ok", "openai: gpt-4.1-mini at https://api.openai.com/v1")
    state, text = found["cloud key"]
    assert (state, "OPENAI_API_KEY is not set" in text) == ("hint", True)
    assert found["cloud price"][1].startswith(
        "$0.4 in, $0.1 cached, $1.6 out per million tokens, from https://"
    )
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1")
    found = with_cloud(tmp_path, preset="openai")
    assert found["cloud key"] == ("ok", "the environment variable OPENAI_API_KEY")
    assert "secret" not in json.dumps(found)


@pytest.mark.usefixtures("no_keyring")
def test_a_cloud_that_cannot_be_used_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = with_cloud(tmp_path, base_url="http://cloud.example/v1", model="m")
    assert (found["cloud"][0], "not encrypted" in found["cloud"][1]) == ("fault", True)
    monkeypatch.setenv("MY_KEY", "two words")
    found = with_cloud(tmp_path, base_url="https://cloud.example/v1", model="m", api_key_env="MY_KEY")
    assert (found["cloud key"][0], "words" in found["cloud key"][1]) == ("fault", False)
