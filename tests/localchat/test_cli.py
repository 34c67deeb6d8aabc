"""The program as a process: exit codes, streams that close, signals, and never a traceback."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localchat import __version__
from localchat.cli import COMMANDS
from localchat.history import History
from tests.localchat.command_line import PATIENCE_S, SLOW_TALKER, command, environment, run, shell, spawn

# -- help and versions


def test_help_names_every_command_and_each_has_its_own(tmp_path: Path) -> None:
    outcome = run(tmp_path, "--help")
    assert (outcome.code, outcome.err) == (0, "")
    for name in COMMANDS:
        assert f"\n    {name}" in outcome.out
        own = run(tmp_path, name, "--help")
        assert (own.code, own.err) == (0, "")
        assert own.out.startswith(f"usage: localchat {name}")
    assert run(tmp_path, "--version").out == f"localchat {__version__}\n"


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_starts_fast_since_it_imports_nothing_heavy(tmp_path: Path, word: str) -> None:
    script = f"""
import sys
from localchat.cli import main
try:
    main([{word!r}])
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""
    outcome = spawn(tmp_path, script=script)
    assert outcome.code == 0
    loaded = set(outcome.err.split())
    heavy = {
        "textual",
        "llama_cpp",
        "numpy",
        "httpx",
        "asyncio",
        "sqlite3",
        "jinja2",
        "platformdirs",
        "tomllib",
    }
    assert "localchat.cli" in loaded
    assert not loaded & heavy
    assert not {name for name in loaded if name.startswith("localchat.commands.")}


@pytest.mark.parametrize("word", COMMANDS)
def test_the_help_of_a_command_loads_no_other(tmp_path: Path, word: str) -> None:
    script = f"""
import sys
from localchat.cli import main
try:
    main([{word!r}, "--help"])
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""
    loaded = set(spawn(tmp_path, script=script).err.split())
    assert {name for name in COMMANDS if f"localchat.commands.{name}" in loaded} == {word}
    assert not loaded & {"textual", "llama_cpp", "numpy", "httpx"}


# -- exit codes


@pytest.mark.parametrize(
    "words",
    [
        ["ask", "--nonsense"],
        ["asks"],
        ["history"],
        ["history", "export"],
        ["history", "export", "x"],
        ["history", "export", "99999999999999999999"],
        ["history", "list", "-n", "0"],
        ["completion", "powershell"],
        ["doctor", "extra"],
        ["--nonsense"],
        ["chat", "extra"],
    ],
)
def test_wrong_usage_is_2_with_a_reason(tmp_path: Path, words: list[str]) -> None:
    outcome = run(tmp_path, *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert "error: " in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_setting_is_2_and_names_its_place(tmp_path: Path) -> None:
    file = tmp_path / "config/config.toml"
    file.parent.mkdir()
    file.write_text("[sampling]\ntemprature = 1")
    outcome = run(tmp_path, "ask", "hi")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"localchat: {file}: unknown setting 'sampling.temprature'. Did you mean 'sampling.temperature'?\n"
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("defualt", "No weights are called 'defualt'. Did you mean default?"),
        ("/no/such/file.gguf", "There is no file /no/such/file.gguf"),
        ("", "No weights are called ''"),
        ("\udcff", "No weights are called"),
    ],
)
def test_an_unknown_model_is_1_with_a_hint(tmp_path: Path, name: str, message: str) -> None:
    outcome = run(tmp_path, "ask", "-m", name, "hi")
    assert (outcome.code, outcome.out) == (1, "")
    assert message in outcome.err
    assert not (tmp_path / "data").exists()


# -- never a traceback


@contextmanager
def broken_home(tmp_path: Path, how: str) -> Iterator[Path]:
    home = tmp_path / "home"
    match how:
        case "below a file":
            (tmp_path / "file").touch()
            home = tmp_path / "file" / "home"
        case "corrupt history":
            (home / "data").mkdir(parents=True)
            (home / "data/history.db").write_bytes(b"garbage " * 4096)
        case "history of another program":
            (home / "data").mkdir(parents=True)
            import sqlite3

            with sqlite3.connect(home / "data/history.db") as other:
                other.execute("CREATE TABLE t(x)")
            other.close()
        case "history is a folder":
            (home / "data/history.db").mkdir(parents=True)
        case "settings are a folder":
            (home / "config/config.toml").mkdir(parents=True)
        case "data is a file":
            home.mkdir()
            (home / "data").touch()
        case "cache is a file":
            home.mkdir()
            (home / "cache").touch()
    yield home


BROKEN = [
    "below a file",
    "corrupt history",
    "history of another program",
    "history is a folder",
    "settings are a folder",
    "data is a file",
]


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_home_is_said_in_one_line(tmp_path: Path, how: str) -> None:
    with broken_home(tmp_path, how) as home:
        outcomes = [
            spawn(home, "ask", "hi", script=SLOW_TALKER),
            *(run(home, "history", *words) for words in (["list"], ["search", "x"], ["export", "1"])),
        ]
        for outcome in outcomes if how != "settings are a folder" else outcomes[:1]:
            assert outcome.code in (1, 2)
            assert outcome.out == ""
            assert outcome.err.startswith("localchat: ")
            assert outcome.err.count("\n") == 1
            assert str(home) in outcome.err


def test_an_unwritable_cache_costs_no_answer(tmp_path: Path) -> None:
    with broken_home(tmp_path, "cache is a file") as home:
        assert run(home, "history", "list").code == 0
        assert run(home, "weights", "list").code == 0


@pytest.mark.parametrize(
    "line",
    [
        "(sleep 0.3; LOCALCHAT --help) | true",
        "(sleep 0.3; LOCALCHAT ask --help) | true",
        "(sleep 0.3; LOCALCHAT completion bash) | true",
        "(sleep 0.3; LOCALCHAT history list) | true",
        "(sleep 0.3; LOCALCHAT history export 1) | true",
        "LOCALCHAT ask hi | head -c1",
        "LOCALCHAT ask hi --events | head -c1",
    ],
)
def test_a_reader_that_has_enough_is_no_error_to_speak_of(tmp_path: Path, line: str) -> None:
    remember_one(tmp_path)
    outcome = shell(tmp_path, line, script=SLOW_TALKER)
    assert outcome.err == ""
    assert outcome.code == 1
    if "ask hi" in line:
        with History(tmp_path / "data/history.db") as history:
            latest = history.latest()
            assert latest
            reply = history.path(latest.leaf_id or 0)[-1]
            assert reply.state == "stopped"


def test_a_full_disk_behind_the_output_is_said(tmp_path: Path) -> None:
    remember_one(tmp_path)
    for line in ("LOCALCHAT history list >/dev/full", "LOCALCHAT ask hi >/dev/full"):
        outcome = shell(tmp_path, line, script=SLOW_TALKER)
        assert (outcome.code, outcome.err) == (1, "localchat: No space left on device.\n")


def test_closed_streams_lead_nowhere(tmp_path: Path) -> None:
    remember_one(tmp_path)
    assert shell(tmp_path, "LOCALCHAT ask <&-").code == 2
    assert shell(tmp_path, "LOCALCHAT chat <&-").code == 2
    assert shell(tmp_path, "LOCALCHAT history list >&-").code == 0
    assert shell(tmp_path, "LOCALCHAT history export 7 2>&-").code == 1
    assert shell(tmp_path, "LOCALCHAT history list <&- >&- 2>&-").code == 0
    (tmp_path / "script").write_text(SLOW_TALKER.replace("range(100_000)", "range(3)"))
    outcome = shell(tmp_path, f"{sys.executable} {tmp_path}/script ask hi <&- >&-")
    assert (outcome.code, outcome.err) == (0, "")


def test_an_output_that_lacks_characters_gets_others(tmp_path: Path) -> None:
    script = SLOW_TALKER.replace('[f"{n} " for n in range(100_000)]', '["caf\u00e9 \U0001f600 \\udcff"]')
    outcome = spawn(tmp_path, "ask", "hi", script=script, env={"PYTHONIOENCODING": "ascii"})
    assert (outcome.code, outcome.out, outcome.err) == (0, "caf? ? ?\n", "")
    assert spawn(tmp_path, "ask", "hi", script=script).out == "café 😀 ?\n"


def test_no_terminal_no_chat(tmp_path: Path) -> None:
    for words in ([], ["chat"], ["-c"], ["--incognito"]):
        outcome = run(tmp_path, *words)
        assert (outcome.code, outcome.out) == (2, "")
        assert "use `localchat ask`" in outcome.err
    assert list(tmp_path.iterdir()) == []


# -- signals


def signalled(home: Path, *words: str, signals: int = 1) -> tuple[int, str, str]:
    """Exit code, output and errors of a run interrupted in the middle of its answer."""
    with subprocess.Popen(
        command("ask", "count", *words, script=SLOW_TALKER),
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,  # what is read here is read once
    ) as process:
        assert process.stdout
        first = b""
        while "--json" not in words and len(first) < 12:
            first += process.stdout.read(12)
        deadline = time.monotonic() + PATIENCE_S
        while "--json" in words and not partly_saved(home) and time.monotonic() < deadline:
            time.sleep(0.02)
        for _ in range(signals):
            process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE_S)
    return process.returncode, (first + rest).decode(), errors.decode()


def partly_saved(home: Path) -> str:
    path = home / "data/history.db"
    if not path.exists():
        return ""
    with History(path) as history:
        latest = history.latest()
        return history.path(latest.leaf_id or 0)[-1].content if latest else ""


@pytest.mark.parametrize("form", ["--incognito", "--events", "--json"])
def test_interrupting_an_answer_is_130_without_a_traceback(tmp_path: Path, form: str) -> None:
    code, out, errors = signalled(tmp_path, form)
    assert (code, errors) == (130, "")
    if form == "--events":
        assert all(json.loads(line) for line in out.splitlines())
    if form == "--json":
        assert out == ""


@pytest.mark.parametrize("signals", [1, 3])
def test_what_was_said_until_then_is_kept_as_stopped(tmp_path: Path, signals: int) -> None:
    code, out, errors = signalled(tmp_path, signals=signals)
    assert (code, errors) == (130, "")
    with History(tmp_path / "data/history.db") as history:
        latest = history.latest()
        assert latest
        question, reply = history.path(latest.leaf_id or 0)
        assert question.content == "count"
        assert reply.state == "stopped"
        assert out.rstrip("\n") == reply.content
        assert reply.content.startswith("0 1 2 3")


def test_interrupting_while_it_reads_the_question_is_130(tmp_path: Path) -> None:
    with subprocess.Popen(
        command("ask", script=SLOW_TALKER.replace("sys.exit", "print(flush=True)\nsys.exit")),
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE_S)
        assert process.stderr
        assert (code, process.stderr.read()) == (130, b"")


# -- on a terminal


def test_progress_is_shown_on_a_terminal_only_and_wiped(tmp_path: Path) -> None:
    script = SLOW_TALKER.replace(
        '[f"{n} " for n in range(100_000)]',
        '[Progress("prefill", 1, 4, "tokens", 12.3, 5.0), "Yes"]',
    ).replace("from router", "from router.request import Progress\nfrom router")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command("ask", "hi", script=script),
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        out, _ = process.communicate(timeout=PATIENCE_S)
    shown = os.read(ours, 4096).decode()
    os.close(ours)
    assert out == b"Yes\n"
    assert shown == "\rprefill 25%, 12 tokens/s, 5 s left\x1b[K\r\x1b[K"


def remember_one(home: Path) -> None:
    with History(home / "data/history.db") as history:
        info = history.new_conversation()
        history.add(info.id, None, "user", "remember " * 20_000)
