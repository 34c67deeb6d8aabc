"""``localchat weights``: what people and scripts read, and how a download is interrupted."""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localchat.commands import weights as command
from localchat.errors import WeightsError
from localchat.weights import Catalog, Progress, Stores
from tests.bandwidth_model.tiny_gguf import DEFAULT_METADATA, gguf_bytes
from tests.localchat.hub_server import Hub, running_hub

MODEL = gguf_bytes(tensors=[("token_embd.weight", (65536,), 0, 4 * 65536)])
SPEC = "hf:owner/repo/Model-Q4.gguf"


@pytest.fixture(autouse=True)
def no_default_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localchat.weights.catalog.installed_default", lambda: None)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    for name in [name for name in os.environ if name.lower().endswith("_proxy") or name.startswith("HF_")]:
        monkeypatch.delenv(name)
    with running_hub(Hub(files={"owner/repo/Model-Q4.gguf": MODEL})) as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        yield hub


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return Catalog(tmp_path / "models", tmp_path / "cache", Stores(lmstudio=(tmp_path / "lms",)))


def run(catalog: Catalog, *words: str) -> int:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(words), catalog)


def test_a_model_is_pulled_listed_described_and_removed(hub, catalog, capsys, tmp_path) -> None:
    assert run(catalog, "pull", SPEC) == 0
    path = tmp_path / "models/Model-Q4.gguf"
    assert capsys.readouterr().out == f"model-q4 is ready (0.3 MB): {path}\n"
    assert run(catalog, "list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["NAME        SIZE  SOURCE  PATH", f"model-q4  0.3 MB  pulled  {path}"]
    assert run(catalog, "info", "model-q4") == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert shown["architecture"] == "llama"
    assert (shown["size"], shown["parameters"], shown["context"]) == ("0.3 MB", "0.1 M", "length  64")
    assert run(catalog, "remove", "model-q4") == 0
    assert capsys.readouterr().out == "Removed model-q4 (0.3 MB).\n"
    assert run(catalog, "list") == 0
    assert "No weights found. Fetch the default model" in capsys.readouterr().out


def test_json_has_the_same_facts(hub, catalog, capsys, tmp_path) -> None:
    run(catalog, "pull", SPEC, "--json")
    pulled = json.loads(capsys.readouterr().out)
    assert set(pulled) == {"name", "path", "bytes", "sha256", "source"}
    assert (pulled["bytes"], pulled["source"]) == (len(MODEL), "pulled")
    run(catalog, "list", "--json")
    assert json.loads(capsys.readouterr().out) == [pulled]
    run(catalog, "info", "model-q4", "--json")
    described = json.loads(capsys.readouterr().out)
    assert described == pulled | {
        "architecture": "llama",
        "quantization": "Q4_1",
        "parameters": 65536,
        "context_length": 64,
    }
    run(catalog, "remove", "model-q4", "--json")
    assert json.loads(capsys.readouterr().out) == pulled
    run(catalog, "list", "--json")
    assert json.loads(capsys.readouterr().out) == []


def test_columns_are_aligned_and_nothing_steers_the_terminal(catalog, capsys, tmp_path) -> None:
    folder = tmp_path / "lms"
    folder.mkdir()
    (folder / "a.gguf").write_bytes(MODEL)
    (folder / "much-longer\x1b[2J.gguf").write_bytes(MODEL * 40)
    run(catalog, "list")
    header, *rows = capsys.readouterr().out.splitlines()
    assert {row.index(" MB") for row in rows} == {header.index("SIZE") + 1}
    assert {row.index("lmstudio") for row in rows} == {header.index("SOURCE")}
    assert "\x1b" not in "".join(rows)


def test_what_the_file_says_does_not_steer_the_terminal_either(catalog, capsys, tmp_path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf_bytes(DEFAULT_METADATA | {"general.architecture": "ll\x1b]0;x\x07ama"}))
    run(catalog, "info", str(path))
    assert "\x1b" not in capsys.readouterr().out


def test_what_could_not_be_read_is_named_beside_the_list(catalog, capsys, tmp_path) -> None:
    (tmp_path / "lms").mkdir()
    (tmp_path / "lms/Half-00001-of-00002.gguf").write_bytes(MODEL)
    run(catalog, "list")
    assert "Half-00002-of-00002.gguf" in capsys.readouterr().err


def test_failures_are_raised_for_the_program_to_say(catalog) -> None:
    with pytest.raises(WeightsError, match="No weights are called 'nothing'"):
        run(catalog, "info", "nothing")
    with pytest.raises(WeightsError):
        run(catalog, "remove", "nothing")


@pytest.mark.parametrize("words", [[], ["pull"], ["remove"], ["list", "extra"], ["fetch"]])
def test_wrong_usage_is_exit_code_2(catalog, capsys, words: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run(catalog, *words)
    assert caught.value.code == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_rewrites_one_line_on_a_terminal() -> None:
    stream = Terminal()
    line = command.ProgressLine(stream)
    line.show(Progress("m.gguf", 45_200_000, 98_400_000, 3_100_000, 17.2))
    line.show(Progress("m.gguf", 98_400_000, 98_400_000, 3_100_000, 0))
    line.end()
    line.end()
    assert stream.getvalue() == (
        "\rm.gguf  45.2 of 98.4 MB  45 %  3.1 MB/s  17 s left\x1b[K"
        "\rm.gguf  98.4 of 98.4 MB  100 %  3.1 MB/s  0 s left\x1b[K\n"
    )


def test_progress_is_a_line_each_five_seconds_elsewhere() -> None:
    stream = io.StringIO()
    clock = iter([0, 1, 5, 5, 6, 11, 11])
    line = command.ProgressLine(stream, lambda: next(clock))
    for done in (1, 2, 3, 4):
        line.show(Progress("m", done * 10**6, 10 * 10**6, 0.0, None))
    line.end()
    assert stream.getvalue() == "m  2.0 of 10.0 MB  20 %  0.0 MB/s\nm  4.0 of 10.0 MB  40 %  0.0 MB/s\n"


def test_long_waits_are_told_in_hours_and_minutes() -> None:
    shown = [command._line(Progress("m", 0, 1, 0, seconds)) for seconds in (59, 61, 3700)]
    assert [line.partition("MB/s  ")[2] for line in shown] == [
        "59 s left",
        "1 min 1 s left",
        "1 h 1 min left",
    ]


def test_ctrl_c_keeps_the_part_and_the_same_command_resumes(hub: Hub, catalog, capsys, tmp_path) -> None:
    hub.pause_s = 0.05
    code = (
        "import argparse, sys; from pathlib import Path\n"
        "from localchat.commands import weights as command\n"
        "from localchat.weights import Catalog, Stores\n"
        "parser = argparse.ArgumentParser(); command.add_arguments(parser)\n"
        f"place = Path({str(tmp_path)!r}); catalog = Catalog(place / 'models', place / 'cache', Stores())\n"
        f"sys.exit(command.run(parser.parse_args(['pull', {SPEC!r}]), catalog))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    part = tmp_path / "models/Model-Q4.gguf.part"
    deadline = time.monotonic() + 10
    while not (part.exists() and part.stat().st_size > 30_000) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=10)
    assert process.returncode != 0
    assert "Stopped. What arrived is kept; the same command resumes." in errors
    have = part.stat().st_size
    assert 30_000 < have < len(MODEL)
    hub.pause_s = 0
    hub.requests.clear()
    assert run(catalog, "pull", SPEC) == 0
    assert hub.asked("GET", "content")[0]["Range"] == f"bytes={have}-"
    assert (tmp_path / "models/Model-Q4.gguf").read_bytes() == MODEL
