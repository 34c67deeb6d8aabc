"""What a machine needs before anything can be installed, and how to get it.

Every check raises Missing with a text for a person: what is missing, then the
command that gets it on the usual systems.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

OLDEST = (3, 11)
CANDIDATES = ("python3", "python3.13", "python3.12", "python3.11", "python3.14", "python")
OLDER = tuple(f"python3.{minor}" for minor in range(10, 5, -1))  # looked for only to be named
# Together 3 GB, with room to spare: .venv was seen to take 0.45 GB and the build 0.3 GB
# without a GPU, whose kernels take several times that.
ENVIRONMENT_BYTES, BUILD_BYTES = 1_000_000_000, 2_000_000_000

_PROBE = (
    "import sys; from importlib.util import find_spec as f; "
    "print(*sys.version_info[:3], int(bool(f('venv') and f('ensurepip'))), "
    "getattr(sys, '_base_executable', '') or sys.executable)"
)


class Missing(Exception):
    """``str()`` is the whole explanation."""


class Interpreter(NamedTuple):
    name: str  # as it was found
    path: str
    version: tuple[int, int, int]
    makes_environments: bool

    def __str__(self) -> str:
        return f"{self.name} ({'.'.join(map(str, self.version))})"


def probe(name: str) -> Interpreter | None:
    """What ``name`` is; None when it does not run, as a version manager's empty shim."""
    try:
        out = subprocess.run(
            [name, "-c", _PROBE], capture_output=True, text=True, timeout=30, check=True
        ).stdout
        major, minor, micro, complete, path = out.strip().split(" ", 4)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return Interpreter(name, path, (int(major), int(minor), int(micro)), complete == "1")


def find_python(asked: str = "") -> Interpreter:
    """The interpreter to build on: ``asked`` and no other, or the first that will do."""
    names = (asked,) if asked else CANDIDATES
    found = [interpreter for name in names if (interpreter := probe(name))]
    new_enough = [interpreter for interpreter in found if interpreter.version >= OLDEST]
    for interpreter in new_enough:
        if interpreter.makes_environments:
            return interpreter
    if new_enough:
        raise Missing(_no_venv(new_enough[0]))
    if not asked:
        found += [interpreter for name in OLDER if (interpreter := probe(name))]
    raise Missing(_no_python(asked, found))


def _no_python(asked: str, found: list[Interpreter]) -> str:
    if asked:
        what = f"PYTHON={asked} is " + (str(found[0]) if found else "not a Python that runs")
    else:
        what = "found on PATH: " + (", ".join(map(str, found)) or "none")
    return f"""localchat needs Python {OLDEST[0]}.{OLDEST[1]} or newer; {what}.
    Debian, Ubuntu   sudo apt install python3 python3-venv
                     (3.11 or newer from Debian 12 and Ubuntu 24.04 on)
    Fedora           sudo dnf install python3
    macOS            brew install python
Or name one that is not on PATH:  make chat PYTHON=/path/to/python3.12"""


def _no_venv(interpreter: Interpreter) -> str:
    short = "python{}.{}".format(*interpreter.version)
    return f"""{interpreter} cannot make virtual environments: its modules venv and ensurepip are missing.
    Debian, Ubuntu   sudo apt install {short}-venv
Or name another one:  make chat PYTHON=/path/to/python3.12"""


def require_compiler() -> None:
    """A C and a C++ compiler that find their headers; $CC and $CXX come first, as CMake sees it."""
    for language, variable, names, source in (
        ("C", "CC", ("cc", "gcc", "clang"), "#include <stdlib.h>\n"),
        ("C++", "CXX", ("c++", "g++", "clang++"), "#include <vector>\n"),
    ):
        command = os.environ.get(variable, "").split() or _first_on_path(names)
        if not command:
            raise Missing(_no_compiler(f"No {language} compiler was found (looked for {', '.join(names)})."))
        if problem := _cannot_compile(command, language, source):
            raise Missing(_no_compiler(f"The {language} compiler {command[0]} does not work: {problem}"))


def _first_on_path(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if shutil.which(name)][:1]


def _cannot_compile(command: list[str], language: str, source: str) -> str:
    check = [*command, "-x", language.lower(), "-fsyntax-only", "-"]
    try:
        result = subprocess.run(check, input=source, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    lines = result.stderr.strip().splitlines() or [f"it ended with code {result.returncode}"]
    return "" if result.returncode == 0 else lines[0]


def _no_compiler(problem: str) -> str:
    return f"""{problem}
llama.cpp, which runs the model, is compiled for this processor. That needs C and C++:
    Debian, Ubuntu   sudo apt install build-essential
    Fedora           sudo dnf install gcc gcc-c++
    macOS            xcode-select --install"""


def require_space(root: Path) -> None:
    """Room for the environment beside the sources and for the build in the temporary folder."""
    build = Path(tempfile.gettempdir())
    needs = {root: ENVIRONMENT_BYTES, build: BUILD_BYTES}
    if root.stat().st_dev == build.stat().st_dev:
        needs = {root: ENVIRONMENT_BYTES + BUILD_BYTES}
    for folder, needed in needs.items():
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise Missing(
                f"Too little disk space: compiling needs about {needed / 1e9:.0f} GB in {folder}, "
                f"{free / 1e9:.1f} GB are free.\nFree some, or set TMPDIR to a folder with room."
            )
