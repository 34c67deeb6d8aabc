"""The calibration that ships with the cache, from the training parts of CLINC150 and Banking77.

Each question meets all before it; what the guards let pass is a possible hit, right where both
have one intent. Questions that the cache would never serve take no part, nor do repeats, which
the exact tier answers. `--write` replaces router/cache/calibration.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.cache_streams import (
    Hit,
    banking77,
    clinc150,
    lasting,
    run,
    shuffled,
    vectors_of,
)
from router.cache.embed import MiniLM
from router.cache.guard.compare import WordGuard
from router.cache.threshold import Promise, Sample, promise

FILE = Path(__file__).resolve().parent.parent / "router" / "cache" / "calibration.json"
DATA = "CLINC150 (train, val) and Banking77 (train)"
LICENCE = "CLINC150: CC-BY-3.0, clinc/oos-eval; Banking77: CC-BY-4.0, PolyAI-LDN/task-specific-datasets"


def possible_hits(data: Path) -> list[Hit]:
    embedder, guard = MiniLM(), WordGuard()
    found: list[Hit] = []
    for questions in (banking77(data, "train"), clinc150(data, ("train", "val"))):
        stream = shuffled(lasting(questions))
        hits = run(
            stream,
            vectors_of(stream, embedder),
            lambda asked, stored, _: not guard.refuses(asked, stored),
            keep_all=True,
        )
        found += [hit for hit in hits if hit.similarity < 1.0]
    return found


def sample_of(hits: list[Hit]) -> list[Sample]:
    """As it is written: a threshold must not change by reading it back."""
    return [Sample(round(hit.similarity, 4), hit.is_right) for hit in hits]


def as_json(hits: list[Hit], found: Promise) -> str:
    samples = sorted(([sample.similarity, int(sample.correct)] for sample in sample_of(hits)), reverse=True)
    fields = {
        "data": DATA,
        "licence": LICENCE,
        "embedder": MiniLM.id,
        "guards": WordGuard.version,
        "threshold": found.threshold,
        "hits": found.hits,
        "wrong": found.wrong,
    }
    head = json.dumps(fields, indent=1)[:-2]
    return f'{head},\n "samples": {json.dumps(samples, separators=(",", ":"))}\n}}\n'


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with banking77_*.csv and clinc150.json"
    )
    parser.add_argument("--write", action="store_true", help="replace what ships")
    args = parser.parse_args()
    hits = possible_hits(args.data)
    found = promise(sample_of(hits))
    print(f"{len(hits)} possible hits, {sum(not hit.is_right for hit in hits)} wrong: {found}")
    for hit in sorted(hits, key=lambda hit: -hit.similarity):
        if not hit.is_right:
            print(f"  {hit.similarity:.3f}  {hit.asked.text!r} as {hit.stored.text!r}")
    if args.write:
        FILE.write_text(as_json(hits, found), encoding="utf-8")


if __name__ == "__main__":
    main()
