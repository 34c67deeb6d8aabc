"""``localchat doctor``: what is installed, what the engine was built for, where files are.

Every finding is ok, a hint or a fault; a fault names what to do and makes the
exit code 1.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from localchat import __version__
from localchat.errors import LocalchatError
from localchat.paths import Paths, find_paths

if TYPE_CHECKING:
    from localchat.settings import CloudSettings, Settings

ENGINE_PATIENCE_S = 60
PACKAGES = ("textual", "llama-cpp-python", "llguidance", "numpy", "httpx")
CPU_FEATURES = {
    "AVX": "avx",
    "AVX2": "avx2",
    "FMA": "fma",
    "F16C": "f16c",
    "AVX512": "avx512f",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
    "AVX_VNNI": "avx_vnni",
}
"""llama.cpp's name of a feature -> the name in /proc/cpuinfo."""


@dataclass(frozen=True, slots=True)
class Finding:
    topic: str
    state: Literal["ok", "hint", "fault"]
    text: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="a list of {topic, state, text}")


def run(args: argparse.Namespace) -> int:
    findings = list(examine(find_paths()))
    if args.json:
        print(json.dumps([asdict(f) for f in findings], ensure_ascii=False, indent=1))
    else:
        width = max(len(f.topic) for f in findings)
        for finding in findings:
            print(f"{finding.state:5}  {finding.topic:{width}}  {finding.text}")
    return int(any(f.state == "fault" for f in findings))


def examine(paths: Paths) -> Iterator[Finding]:
    yield Finding(
        "localchat", "ok", f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
    )
    for name in PACKAGES:
        yield _package(name)
    yield from _engine()
    yield from _model(paths)
    yield from _settings(paths)
    yield from _files(paths)
    yield _memory()
    yield from _terminal()


def _package(name: str) -> Finding:
    try:
        return Finding(name, "ok", importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, "fault", "not installed; run `make setup` or `pip install .` again")


def _engine() -> Iterator[Finding]:
    command = [sys.executable, "-P", "-m", "localchat.engines.build_info"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=ENGINE_PATIENCE_S, check=False)
        build = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        yield Finding("engine", "fault", f"llama.cpp does not start within {ENGINE_PATIENCE_S} s; try again")
        return
    except ValueError:
        words = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:] or [
            f"exit code {done.returncode}"
        ]
        yield Finding("engine", "fault", f"llama.cpp does not start: {words[0]}")
        return
    yield Finding(
        "engine", "ok", f"llama.cpp {build['llama.cpp']}, GPU offload {'yes' if build['gpu'] else 'no'}"
    )
    used = {
        part.split("=")[0].split(":")[-1].strip() for part in build["features"].split("|") if "= 1" in part
    }
    yield Finding("CPU features used", "ok", ", ".join(sorted(used)))
    if missing := sorted(_cpu_has() - used):
        text = f"this CPU also has {', '.join(missing)}; rebuild llama-cpp-python here to use them"
        yield Finding("CPU features unused", "hint", text)


def _cpu_has() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    flags = next((set(line.split()) for line in lines if line.startswith("flags")), set())
    # AVX_VNNI is the form for CPUs without AVX-512; a build uses one of the two.
    names = {name for name, flag in CPU_FEATURES.items() if flag in flags}
    return names - {"AVX_VNNI"} if "AVX512_VNNI" in names else names


def _model(paths: Paths) -> Iterator[Finding]:
    from localchat.compose import build_catalog

    catalog = build_catalog(paths)
    try:
        weights = catalog.find("default")
        catalog.verify(weights)
        yield Finding(
            "default model",
            "ok",
            f"{weights.name}, {weights.bytes / 1e6:.1f} MB, checksum right: {weights.path}",
        )
    except LocalchatError as error:
        yield Finding("default model", "fault", str(error))
    found = catalog.list()
    yield Finding("models found", "ok", ", ".join(w.name for w in found) or "none")
    for problem in catalog.problems:
        yield Finding("models", "hint", problem)


def _settings(paths: Paths) -> Iterator[Finding]:
    from localchat.settings import load_settings

    try:
        settings = load_settings(paths.settings, os.environ)
        there = "" if paths.settings.exists() else " (not there: defaults)"
        yield Finding("settings", "ok", f"{paths.settings}{there}")
    except LocalchatError as error:
        yield Finding("settings", "fault", str(error))
        return
    yield from _cloud(settings.cloud)
    yield from _records(settings, paths)


def _records(settings: Settings, paths: Paths) -> Iterator[Finding]:
    """The facts that answers are checked against, and what is kept of answers."""
    from localchat.compose.routing import Routing
    from router.cache.schema import connect
    from router.errors import RouterError
    from router.ledger import Ledger

    try:
        Routing(settings, paths)
        yield Finding("facts", "ok", settings.routing.rules or "no rules are set")
    except LocalchatError as error:
        yield Finding("facts", "fault", str(error))
    for topic, file, look in (
        ("ledger", paths.ledger, lambda: Ledger(paths.ledger).totals()),
        ("kept answers", paths.answers, lambda: connect(paths.answers).close()),
    ):
        try:
            if file.exists():
                look()
            yield Finding(topic, "ok", str(file))
        except RouterError as error:
            yield Finding(topic, "fault", str(error))


def _cloud(cloud: CloudSettings) -> Iterator[Finding]:
    """Where questions could go and where the key comes from. It is not shown, nor the cloud asked."""
    from localchat.compose.clouds import cloud_key, cloud_target
    from router.errors import CloudError

    try:
        target = cloud_target(cloud)
    except LocalchatError as error:
        yield Finding("cloud", "fault", str(error))
        return
    if target is None:
        yield Finding("cloud", "ok", "none configured: the modes auto and cloud ask a simulated one, here")
        return
    yield Finding("cloud", "ok", str(target))
    try:
        found = cloud_key(target)
    except CloudError as error:
        yield Finding("cloud key", "fault", str(error))
        return
    missing = found.key is None and not target.address.is_loopback  # one's own server often wants none
    yield Finding("cloud key", "hint" if missing else "ok", found.source)
    price = f"{target.price}, from {target.price.source}" if target.price else "not known: no cost is shown"
    yield Finding("cloud price", "ok" if target.price else "hint", price)


def _files(paths: Paths) -> Iterator[Finding]:
    from localchat.history import History

    try:
        there = paths.history.exists()
        size = f", {paths.history.stat().st_size / 1e6:.1f} MB" if there else " (made with the first message)"
        if there:
            History(paths.history).close()
        yield Finding("conversations", "ok", f"{paths.history}{size}")
    except (LocalchatError, OSError) as error:
        yield Finding("conversations", "fault", str(error))
    yield Finding("pulled models", "ok", str(paths.models))
    yield Finding("cache", "ok", str(paths.cache))
    folder = next(p for p in (paths.data, *paths.data.parents) if os.path.exists(p))
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        where = "your home or LOCALCHAT_HOME must lie elsewhere"
        yield Finding("disk", "fault", f"{folder} is not a folder you can write to: {where}")
        return
    free = shutil.disk_usage(folder).free
    yield Finding("disk", "ok" if free > 1e9 else "hint", f"{free / 1e9:.1f} GB free in {folder}")


def _memory() -> Finding:
    from bandwidth_model.machine import available_bytes

    free = available_bytes()
    return Finding("memory", "ok" if free > 500e6 else "hint", f"{free / 1e9:.1f} GB available to a model")


def _terminal() -> Iterator[Finding]:
    name = os.environ.get("TERM", "")
    state: Literal["ok", "hint"] = "hint" if name in ("", "dumb") else "ok"
    colours = (
        "no colours (NO_COLOR)" if os.environ.get("NO_COLOR") else os.environ.get("COLORTERM", "256 colours")
    )
    yield Finding("terminal", state, f"TERM={name or 'not set'}, {colours}")
    encoding = (sys.stdout.encoding or "").lower()
    if not encoding.startswith("utf"):
        yield Finding("encoding", "hint", f"{encoding or 'unknown'}: set a UTF-8 locale for other scripts")
