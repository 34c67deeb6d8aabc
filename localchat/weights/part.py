"""NAME.part: a file while it arrives, and NAME.part.json: which file it is a part of.

Owns both, the lock on them and the running digest. Does not know where bytes come from.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from contextlib import suppress
from io import BufferedRandom
from pathlib import Path
from types import TracebackType

from localchat.errors import WeightsError


class PartFile:
    """Use as a context manager; leaving it keeps the bytes for the next time.

    The lock is on the part itself, so that no lock file is left behind: it
    ends with this process, however that ends.
    """

    def __init__(self, target: Path) -> None:
        self._target = target
        self._path = target.with_name(f"{target.name}.part")
        self._note = target.with_name(f"{target.name}.part.json")
        self._file: BufferedRandom
        self._digest = hashlib.sha256()
        self._digest_is_current = True
        self._etag: str | None = None
        self.size = 0
        self.content_etag: str | None = None

    def __enter__(self) -> PartFile:
        self._file = self._open_locked()
        self.size = self._file.seek(0, os.SEEK_END)
        self._digest_is_current = self.size == 0
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.size == 0:
            self.discard()  # still under the lock: nobody else's part is hit
        self._file.close()

    def belong_to(self, etag: str | None) -> None:
        """Keep what is here if it is a part of the file ``etag``, else start again."""
        note = self._read_note()
        if self.size and (etag is None or note.get("etag") != etag):
            self.restart()
        if self.size and not self._digest_is_current:
            self._file.seek(0)
            self._digest = hashlib.file_digest(self._file, "sha256")
        self._digest_is_current = True
        self.content_etag = note.get("content_etag") if self.size else None
        self._etag = etag

    def restart(self) -> None:
        self._file.truncate(0)
        self._digest = hashlib.sha256()
        self.size = 0
        self.content_etag = None

    def note(self, content_etag: str | None) -> None:
        """Remember what the coming bytes belong to, before the first is written."""
        self.content_etag = content_etag
        self._note.write_text(json.dumps({"etag": self._etag, "content_etag": content_etag}))

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)  # appends: the file is open in "a" mode
        self._digest.update(chunk)
        self.size += len(chunk)

    def first_bytes(self, count: int) -> bytes:
        self._file.flush()
        self._file.seek(0)
        return self._file.read(count)

    def sha256(self) -> str:
        return self._digest.hexdigest()

    def flush(self) -> Path:
        """Write everything out and return where it is."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._path

    def check_space(self, total: int) -> None:
        """Raise WeightsError unless the disk holds what is still to come."""
        self._file.flush()
        needed, free = total - self.size, shutil.disk_usage(self._path.parent).free
        if needed > free:
            raise WeightsError(
                f"{self._target.name} needs {needed:,} more bytes; {self._path.parent} has {free:,} free.",
                f"Free at least {needed - free:,} bytes, or set LOCALCHAT_HOME to a folder on another disk.",
            )

    def become_target(self) -> None:
        """Put the finished file in its place, in one step."""
        os.replace(self.flush(), self._target)
        self._note.unlink(missing_ok=True)

    def discard(self) -> None:
        self.size = 0
        self._path.unlink(missing_ok=True)
        self._note.unlink(missing_ok=True)

    def _open_locked(self) -> BufferedRandom:
        while True:
            file = self._path.open("a+b")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                file.close()
                raise WeightsError(
                    f"Another localchat is fetching {self._target.name}.",
                    "Wait until it is done, or stop it and run this again.",
                ) from None
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), os.stat(self._path)):
                    return file
            file.close()  # the other one was done between our open and lock: this is its file

    def _read_note(self) -> dict[str, str]:
        try:
            note = json.loads(self._note.read_bytes())
        except (OSError, ValueError):
            return {}
        return {k: v for k, v in note.items() if isinstance(v, str)} if isinstance(note, dict) else {}
