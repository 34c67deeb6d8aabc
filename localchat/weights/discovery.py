"""Where programs keep GGUF files, and which ones are there.

Reads folders and Ollama's manifests, never a model. What cannot be read is
named in ``problems`` and skipped. Owns no folder and writes nothing.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from localchat.weights.entry import Source, Weights, is_later_part, parts, short_name

# Bounds for a folder that is not what we think it is; the deepest layout (Hugging Face
# snapshots with subfolders) needs 5 levels, a cache of 100 models some 2,000 entries.
MAX_DEPTH = 8
MAX_ENTRIES = 20_000
MAX_MANIFEST_BYTES = 2**20

OLLAMA_MODEL_LAYER = "application/vnd.ollama.image.model"  # server/images.go of Ollama
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Stores:
    """The folders of other programs, all of which may be missing."""

    ollama: tuple[Path, ...] = ()
    lmstudio: tuple[Path, ...] = ()
    llama_cpp: tuple[Path, ...] = ()
    huggingface: tuple[Path, ...] = ()


def usual_stores(environ: Mapping[str, str], home: Path, platform: str = sys.platform) -> Stores:
    """Where the programs put their files on this machine, by their own documentation.

    Ollama: docs/faq.md. llama.cpp: fs_get_cache_directory in common/common.cpp.
    Hugging Face: the environment variables page of huggingface_hub. LM Studio:
    its My Models page, and the folder of its versions before 0.3.
    """
    cache = Path(environ.get("XDG_CACHE_HOME") or home / ".cache")

    def named(*variables: str) -> list[Path]:
        return [Path(environ[name]).expanduser() for name in variables if environ.get(name)]

    llama_cpp = [*named("LLAMA_CACHE"), cache / "llama.cpp"]
    if platform == "darwin":
        llama_cpp.append(home / "Library/Caches/llama.cpp")
    hugging_face = [
        *named("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"),
        *(folder / "hub" for folder in named("HF_HOME")),
        cache / "huggingface/hub",
    ]
    return Stores(
        ollama=(
            *named("OLLAMA_MODELS"),
            home / ".ollama/models",
            Path("/usr/share/ollama/.ollama/models"),
        ),
        lmstudio=(home / ".lmstudio/models", home / ".cache/lm-studio/models"),
        llama_cpp=tuple(llama_cpp),
        huggingface=tuple(hugging_face),
    )


def discover(stores: Stores, problems: list[str]) -> Iterator[Weights]:
    """The models of other programs, each file once."""
    seen: set[Path] = set()
    for weights in _all(stores, problems):
        real = weights.path.resolve()
        if real not in seen:
            seen.add(real)
            yield weights


def models_in(folder: Path, source: Source, problems: list[str]) -> Iterator[Weights]:
    """The models under ``folder``; vision projectors (mmproj) are none."""
    for path in _files(folder, problems, _is_model):
        if is_later_part(path):
            continue
        try:
            size = sum(part.stat().st_size for part in parts(path))
        except OSError as error:
            problems.append(f"{error.filename}: {error.strerror}")
            continue
        yield Weights(short_name(path), path, size, source, _digest_of_blob(path))


def _all(stores: Stores, problems: list[str]) -> Iterator[Weights]:
    for folder in stores.ollama:
        yield from _ollama(folder, problems)
    for folder in stores.lmstudio:
        yield from models_in(folder, "lmstudio", problems)
    for folder in stores.llama_cpp:
        yield from models_in(folder, "llama.cpp", problems)
    for folder in stores.huggingface:
        for repository in _listed(folder, problems):
            if repository.name.startswith("models--"):
                yield from models_in(Path(repository.path, "snapshots"), "huggingface", problems)


def _ollama(folder: Path, problems: list[str]) -> Iterator[Weights]:
    manifests = folder / "manifests"
    for path in _files(manifests, problems, lambda name: not name.startswith(".")):
        try:
            digest = _model_digest(path)
            if digest is None:  # an adapter, or weights that are no GGUF
                continue
            blob = folder / "blobs" / f"sha256-{digest}"
            size = blob.stat().st_size
        except OSError as error:
            problems.append(f"{error.filename}: {error.strerror}")
        except (ValueError, AttributeError, TypeError, LookupError, RecursionError) as error:
            problems.append(f"{path}: not a manifest ({error})")
        else:
            yield Weights(_ollama_name(path.relative_to(manifests)), blob, size, "ollama", digest)


def _model_digest(manifest: Path) -> str | None:
    with manifest.open("rb") as file:
        content = json.loads(file.read(MAX_MANIFEST_BYTES))
    for layer in content.get("layers") or ():
        if layer.get("mediaType") == OLLAMA_MODEL_LAYER:
            digest = _DIGEST.fullmatch(layer["digest"])
            if digest is None:
                raise ValueError(f"odd digest {layer['digest']!r}")
            return digest[1]
    return None


def _ollama_name(manifest: Path) -> str:
    """What Ollama calls it: its own registry and library go unsaid."""
    *where, model, tag = manifest.parts
    if where and where[0] == "registry.ollama.ai":
        where = where[2:] if where[1:] == ["library"] else where[1:]
    return f"{'/'.join([*where, model])}:{tag}".lower()


def _is_model(name: str) -> bool:
    return name.lower().endswith(".gguf") and "mmproj" not in name.lower()


def _digest_of_blob(path: Path) -> str | None:
    """Hugging Face names the file behind a link by its digest."""
    target = os.path.basename(os.readlink(path)) if path.is_symlink() else ""
    return target if _DIGEST.fullmatch(f"sha256:{target}") else None


def _files(root: Path, problems: list[str], wanted: Callable[[str], bool]) -> Iterator[Path]:
    """Files below ``root`` in order of their names. Links to folders are not followed."""
    left = MAX_ENTRIES
    folders = [(root, 0)]
    while folders:
        folder, depth = folders.pop()
        listed = _listed(folder, problems)
        left -= len(listed)
        if left < 0:
            problems.append(f"{root}: more than {MAX_ENTRIES:,} files, the rest was not looked at")
            return
        below = [Path(entry.path) for entry in listed if entry.is_dir(follow_symlinks=False)]
        if depth < MAX_DEPTH:
            folders.extend((path, depth + 1) for path in reversed(below))
        yield from (Path(entry.path) for entry in listed if wanted(entry.name) and _is_file(entry))


def _listed(folder: Path, problems: list[str]) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(islice(entries, MAX_ENTRIES + 1), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        problems.append(f"{folder}: {error.strerror}")
        return []


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()  # follows links; False for a dangling one
    except OSError:
        return False
