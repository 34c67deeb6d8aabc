"""What the repository holds: nothing large, nothing of one machine, no unexplained exception."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 1_000_000
LOCK_FILES = {"uv.lock", "poetry.lock", "pdm.lock", "pipfile.lock", "conda-lock.yml", "pixi.lock"}
HOMES = re.compile(r"(?<![\w./~-])/(?:home|Users|root)/(?!(?:me|you|someone)\b)\w")
# An exception to a rule reads: hash, the rule's name in brackets or after a colon, hash, the reason.
EXCEPTION = re.compile(r"#\s*(?:type:\s*ignore|noqa)\b", re.IGNORECASE)
EXPLAINED = re.compile(r"#\s(?:type: ignore\[[a-z, -]+\]|noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*)\s+# \S+")


def files() -> list[Path]:
    """Tracked files and those about to be; without git, all that are not hidden."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        found = [p for p in ROOT.rglob("*") if not any(part[0] == "." for part in p.relative_to(ROOT).parts)]
    return sorted(path for path in found if path.is_file())


def text_of(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "replace")


def test_no_file_is_large() -> None:
    assert not [path for path in files() if path.stat().st_size > LARGEST_BYTES]


def test_no_lock_files() -> None:
    """constraints.txt says the versions, without saying where they come from."""
    assert not [path for path in files() if path.name.lower() in LOCK_FILES]


def test_no_package_index_is_named() -> None:
    """Where packages come from is for the person's own pip configuration to say."""
    named = re.compile(r"--(?:extra-)?index-url|--find-links|--trusted-host")
    kinds = {"Makefile", "constraints.txt", "pyproject.toml", "run"}
    scripts = [path for path in files() if path.name in kinds or path.parent == ROOT / "scripts"]
    assert not [path for path in scripts if named.search(text_of(path))]


def test_nothing_names_a_home_folder() -> None:
    assert not [path for path in files() if HOMES.search(text_of(path))]


def test_the_constraints_name_the_default_model() -> None:
    from localchat.weights import DEFAULT

    pinned = f"{DEFAULT.distribution}=={DEFAULT.version}"
    assert pinned in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "path", [p for p in files() if p.suffix == ".py"], ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_exception_names_its_code_and_its_reason(path: Path) -> None:
    tokens = tokenize.generate_tokens(io.StringIO(text_of(path)).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    unexplained = [c for c in comments if EXCEPTION.search(c) and not EXPLAINED.search(c)]
    assert not unexplained
