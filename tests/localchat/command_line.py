"""Runs the command line, in this process or in one of its own, with a scripted engine or the real one."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from localchat.cli import main
from router.scripted import ScriptedBackend

PATIENCE_S = 60.0  # for what takes a second on a machine that is not busy

SLOW_TALKER = """
import sys
from localchat import cli, compose
from router.scripted import ScriptedBackend

class Engine(ScriptedBackend):
    def start(self):
        pass

compose.build_engine = lambda *_: Engine([f"{n} " for n in range(100_000)], tokens_per_s=200)
sys.exit(cli.main(sys.argv[1:]))
"""
"""``localchat`` with an engine that counts, 200 words a second, until it is stopped."""


class Engine(ScriptedBackend):
    """A scripted model where compose puts an engine."""

    def start(self) -> None:
        """It has nothing to start."""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def run(home: Path, *words: str, stdin: bytes = b"", engine: ScriptedBackend | None = None) -> Outcome:
    """In this process. Without an engine whatever needs one starts the real thing."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        for name, value in _environment(home).items():
            patch.setenv(name, value)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        if engine:
            patch.setattr("localchat.compose.build_engine", lambda *_: engine)
        try:
            code = main(words)
        except SystemExit as end:  # of argparse
            code = end.code if isinstance(end.code, int) else 1
        out.flush()
        err.flush()
    texts = [
        stream.buffer.getvalue().decode() for stream in (out, err) if isinstance(stream.buffer, io.BytesIO)
    ]
    return Outcome(code, *texts)


def command(*words: str, script: str = "") -> list[str]:
    return [sys.executable, *(("-c", script) if script else ("-m", "localchat")), *words]


def environment(home: Path, **more: str) -> dict[str, str]:
    """For a process: nothing of this machine's models and settings, buffered as for a person."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LOCALCHAT_", "PYTHON"))}
    path = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])
    return {**kept, **_environment(home), "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}


def spawn(
    home: Path, *words: str, stdin: bytes = b"", script: str = "", env: Mapping[str, str] | None = None
) -> Outcome:
    """In a process of its own, to its end."""
    done = subprocess.run(
        command(*words, script=script),
        input=stdin,
        capture_output=True,
        env=environment(home, **(env or {})),
        timeout=PATIENCE_S,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


def shell(home: Path, line: str, script: str = "", **env: str) -> Outcome:
    """``line`` in bash, where LOCALCHAT stands for the program. The code is that of the first command."""
    program = " ".join(f"'{word}'" for word in command(script="$SCRIPT" if script else ""))
    program = program.replace("'$SCRIPT'", '"$SCRIPT"')
    done = subprocess.run(
        ["bash", "-c", line.replace("LOCALCHAT", program) + '; exit "${PIPESTATUS[0]}"'],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=environment(home, SCRIPT=script, **env),
        timeout=PATIENCE_S,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode())


def _environment(home: Path) -> dict[str, str]:
    return {"LOCALCHAT_HOME": str(home), "HOME": str(home / "home")}
