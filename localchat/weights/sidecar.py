"""What is known of a pulled file: NAME.gguf.json beside NAME.gguf.

A file without one was not pulled by us, and is not ours to replace or remove.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sidecar:
    """``source`` is the spec that pulled it, ``revision`` the commit or version it resolved to."""

    source: str
    revision: str | None
    sha256: str
    bytes: int


def sidecar_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def read_sidecar(path: Path) -> Sidecar | None:
    """What was noted for the file ``path``; None when nothing (readable) was."""
    try:
        return Sidecar(**json.loads(sidecar_path(path).read_bytes()))
    except (OSError, ValueError, TypeError):
        return None


def write_sidecar(path: Path, sidecar: Sidecar) -> None:
    fresh = path.with_name(f"{path.name}.json.new")
    fresh.write_text(json.dumps(asdict(sidecar), indent=1) + "\n")
    os.replace(fresh, sidecar_path(path))
