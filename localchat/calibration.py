"""The record of how fast engines ran here, and what was fitted to it.

Owns the file: which runs it keeps, when they are stale, when the fit is made anew. The
fit is bandwidth_model.calibrate's. Nothing heavy is imported to read what was fitted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from time import time
from typing import TYPE_CHECKING, Any, Literal

from bandwidth_model.measured import Calibration

if TYPE_CHECKING:
    from bandwidth_model.calibrate import Run

Source = Literal["calibrate", "reply"]

VERSION = 2
KEPT = 5  # of the same model, threads and depth: their median is what counts
DEPTH_STEP = 512  # depths this close together are the same for that


@dataclass(frozen=True, slots=True)
class Entry:
    """Runs of one model at one thread count and depth: ``seconds`` a token, the latest last."""

    model: str
    identity: str
    threads: int
    depth: float
    seconds: tuple[float, ...]
    source: Source
    at: float  # Unix time of the latest
    run: Mapping[str, Any]  # what one of the runs took

    @property
    def token_s(self) -> float:
        """The median: one measurement that something disturbed does not count."""
        return median(self.seconds)


@dataclass(slots=True)
class Record:
    """What is known for one key: an engine's build, flash attention, cache type and power state."""

    entries: list[Entry] = field(default_factory=list)
    fitted: dict[int, Calibration] = field(default_factory=dict)

    def of(self, identity: str, threads: int) -> list[Entry]:
        """What was measured of one model with that many threads."""
        return [each for each in self.entries if (each.identity, each.threads) == (identity, threads)]

    def nearest(self, threads: int) -> Calibration | None:
        """For that many threads, or else the nearest number that was measured."""
        if not self.fitted:
            return None
        return self.fitted[min(self.fitted, key=lambda count: (abs(count - threads), count))]


class CalibrationFile:
    """The records of one user; a file that cannot be read counts as empty."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def record(self, key: str) -> Record:
        kept = self._read().get(key)
        try:
            return _record(kept) if kept else Record()
        except (KeyError, TypeError, ValueError, AttributeError):
            return Record()

    def add(self, key: str, runs: Iterable[Run], source: Source) -> Record:
        """Take in runs. What other builds of the engine ran is stale and goes.

        Runs of ``calibrate`` are fitted, with all others; a reply's are kept for the next fit, and
        count for their own model at once. Raises OSError when the file cannot be written.
        """
        record = self.record(key)
        for run in runs:
            _put(record.entries, run, source)
        if source == "calibrate":
            record.fitted = _fit(record.entries)
        engine = key.partition("|")[0]
        others = {
            k: v for k, v in self._read().items() if k.partition("|")[0] != engine or _same_build(k, key)
        }
        self._write({**others, key: _to_json(record)})
        return record

    def forget(self) -> None:
        """Remove all records."""
        self._path.unlink(missing_ok=True)

    def _read(self) -> dict[str, Any]:
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        if not isinstance(kept, dict) or kept.get("version") != VERSION:
            return {}
        records = kept.get("records")
        return records if isinstance(records, dict) else {}

    def _write(self, records: Mapping[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps({"version": VERSION, "records": records}, indent=1), encoding="utf-8")
        part.replace(self._path)


def _same_build(one: str, other: str) -> bool:
    """Keys are engine|build|what else."""
    return one.split("|")[1:2] == other.split("|")[1:2]


def _put(entries: list[Entry], run: Run, source: Source) -> None:
    """Add ``run`` to the entry of its model, threads and depth, or make one."""
    place = (run.identity, run.threads, run.depth // DEPTH_STEP)
    same = [e for e in entries if (e.identity, e.threads, e.depth // DEPTH_STEP) == place]
    seconds = (*(same[0].seconds if same else ()), run.token_s)[-KEPT:]
    new = Entry(run.model, run.identity, run.threads, run.depth, seconds, source, time(), asdict(run))
    if same:
        entries[entries.index(same[0])] = new
    else:
        entries.append(new)


def run_from(entry: Entry) -> Run:
    """The run an entry stands for: its median."""
    from bandwidth_model.calibrate import Prompt, Run

    fields = dict(entry.run)
    prompt = fields.pop("prompt")
    run = Run(**fields, prompt=Prompt(**prompt) if prompt else None)
    return replace(run, token_s=entry.token_s)


def _fit(entries: Iterable[Entry]) -> dict[int, Calibration]:
    from bandwidth_model.calibrate import fit

    known = list(entries)
    runs = [run_from(entry) for entry in known]
    counts = {entry.threads for entry in known if entry.source == "calibrate"}
    return {threads: fit(runs, threads) for threads in sorted(counts)}


# -- JSON, with the infinity that Python's reads and writes


def _to_json(record: Record) -> dict[str, Any]:
    return {
        "entries": [asdict(entry) for entry in record.entries],
        "fitted": {str(threads): asdict(each) for threads, each in record.fitted.items()},
    }


def _record(kept: Mapping[str, Any]) -> Record:
    entries = [Entry(**{**entry, "seconds": tuple(entry["seconds"])}) for entry in kept["entries"]]
    return Record(entries, {int(n): Calibration(**each) for n, each in kept["fitted"].items()})
