"""Digests of model files, computed once per file and remembered.

Owns verified.json in the cache folder. Does not know what a digest should be.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path


class Verdicts:
    """The digests of files that have not changed since they were hashed.

    A file counts as unchanged while its size and modification time are. The
    cache may vanish or be unwritable at any time: then files are hashed again.
    """

    def __init__(self, cache: Path) -> None:
        self._file = cache / "verified.json"

    def sha256(self, path: Path) -> str:
        """The digest of ``path``: remembered, or computed and remembered."""
        entry = self._load().get(str(path))
        if isinstance(entry, list) and entry[:2] == _state(path) and isinstance(entry[-1], str):
            return entry[-1]
        digest = _hash(path)
        self.remember(path, digest)
        return digest

    def remember(self, path: Path, sha256: str) -> None:
        """Note the digest of a file that was hashed while it was written."""
        entries = {known: entry for known, entry in self._load().items() if os.path.exists(known)}
        entries[str(path)] = [*_state(path), sha256]
        fresh = self._file.with_suffix(f".{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(json.dumps(entries, indent=1))
            os.replace(fresh, self._file)
        except OSError:
            with suppress(OSError):
                fresh.unlink(missing_ok=True)

    def _load(self) -> dict[str, object]:
        try:
            entries = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}


def _state(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _hash(path: Path) -> str:
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
