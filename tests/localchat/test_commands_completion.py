"""``localchat completion``: scripts that their shells accept, and that complete."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from localchat.cli import COMMANDS
from localchat.commands.completion import SHELLS
from tests.localchat.command_line import PATIENCE_S, run


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_gets_a_script_that_knows_the_commands(tmp_path: Path, shell: str) -> None:
    outcome = run(tmp_path, "completion", shell)
    assert (outcome.code, outcome.err) == (0, "")
    for word in (*COMMANDS, "incognito", "on-overflow"):
        assert word in outcome.out
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(outcome.out)
        done = subprocess.run([shell, "-n", script], capture_output=True, timeout=PATIENCE_S, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        (["do"], {"doctor"}),
        (["ask", "--on-over"], {"--on-overflow"}),
        (["ask", "--on-overflow", "d"], {"drop"}),
        (["history", "export", "--format", ""], {"md", "json"}),
        (["completion", "z"], {"zsh"}),
    ],
)
def test_bash_completes(tmp_path: Path, typed: list[str], completed: set[str]) -> None:
    script = run(tmp_path, "completion", "bash").out
    words = " ".join(f"'{word}'" for word in ("localchat", *typed))
    line = f'COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _shtab_localchat; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash"], input=f"{script}\n{line}\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (set(done.stdout.split()), done.stderr) == (completed, "")
