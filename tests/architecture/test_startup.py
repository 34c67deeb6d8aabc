"""The command line is there at once: nothing heavy is imported before it is needed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {"textual", "llama_cpp", "numpy", "httpx", "jinja2", "starlette", "uvicorn"}


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["ask", "--help"], ["chat", "--help"], ["cloud", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "localchat", *arguments]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "localchat" in result.stdout
    imported = set(re.findall(r"^import time:.*\|\s+([\w.]+)$", result.stderr, re.MULTILINE))
    assert "argparse" in imported
    assert not {name.partition(".")[0] for name in imported} & HEAVY
