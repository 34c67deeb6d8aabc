"""Recall of structured identifiers by kind, false alarms on questions without any, time of hostile text.

``--data DIR`` (or LOCALCHAT_DATA) holds privacy/pii_sentences.json (microsoft/presidio-research, MIT), and
caching/banking77_*.csv and clinc150.json, whose questions hold no identifier; without it only the time is
measured. A value counts as found when the whole of it is. Goals are what regular expressions and checksums
reached on twice as many sentences of the same generator. It claims structured identifiers and secrets
only: the names, streets and dates of the same sentences are not looked for, and are not in the table.
"""

from __future__ import annotations

import csv
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.record import Record, arguments, recording
from router.privacy import Kind, scan_text

KINDS: dict[str, Kind] = {
    "EMAIL_ADDRESS": "email",
    "US_SSN": "ssn",
    "IBAN_CODE": "iban",
    "CREDIT_CARD": "card",
    "PHONE_NUMBER": "phone",
}
GOALS: dict[Kind, float] = {
    "email": 49 / 49,
    "ssn": 16 / 16,
    "iban": 20 / 21,
    "card": 126 / 136,
    "phone": 78 / 92,
}

HOSTILE = {
    "one letter": "a",
    "addresses without an end": "a@a.",
    "one digit": "1",
    "single digits": "1 ",
    "groups of a card that is none": "4111 ",
    "beginnings of keys": "sk- eyJ ",
    "beginnings of links": "://a:",
    "beginnings of accounts": "GB12 ",
    "names of passwords": "password = ",
    "beginnings of private keys": "-----BEGIN PRIVATE KEY-----!",
    "characters without width": "1\u200b",
    "phone numbers": "phone 1234567, ",
}


def recall(record: Record, sentences: list[dict[str, Any]]) -> None:
    expected: Counter[Kind] = Counter()
    found: Counter[Kind] = Counter()
    others = 0
    for sentence in sentences:
        hits = scan_text(sentence["full_text"])
        spans = [
            (KINDS[span["entity_type"]], span["start_position"], span["end_position"])
            for span in sentence["spans"]
            if span["entity_type"] in KINDS
        ]
        for kind, start, end in spans:
            expected[kind] += 1
            found[kind] += any(h.kind == kind and h.start <= start and h.end >= end for h in hits)
        others += sum(all(h.end <= start or h.start >= end for _, start, end in spans) for h in hits)
    for kind, goal in GOALS.items():
        share = found[kind] / expected[kind] if expected[kind] else float("nan")
        note = f"{found[kind]} of {expected[kind]}"
        record.row(f"recall: {kind}", 100 * share, "%", f"≥ {100 * goal:.1f}", note)
    record.row("finds that are none of these", others, "", note=f"in {len(sentences)} sentences")


def false_alarms(record: Record, name: str, questions: list[str]) -> None:
    alarms = sum(bool(scan_text(question)) for question in questions)
    record.row(f"false alarms: {name}", alarms, "", "= 0", f"of {len(questions):,} questions")


def banking77(folder: Path) -> Iterator[str]:
    for part in ("train", "test"):
        with (folder / f"banking77_{part}.csv").open(encoding="utf-8", newline="") as file:
            yield from (row["text"] for row in csv.DictReader(file))


def clinc150(folder: Path) -> Iterator[str]:
    table = json.loads((folder / "clinc150.json").read_text(encoding="utf-8"))
    yield from (question for part in table.values() for question, _ in part)


def seconds(record: Record, characters: int, ordinary: str) -> None:
    for name, text in {"ordinary questions": ordinary, **HOSTILE}.items():
        whole = (text * (characters // max(1, len(text)) + 1))[:characters]
        began_s = time.process_time()
        scan_text(whole)
        record.row(f"{characters / 1e6:g} M characters: {name}", time.process_time() - began_s, "s CPU")


def main() -> None:
    parser = arguments(__doc__, repeats=1)
    usual = os.environ.get("LOCALCHAT_DATA")
    parser.add_argument("--data", type=Path, default=Path(usual) if usual else None, metavar="DIR")
    parser.add_argument("--characters", type=int, default=5_000_000, metavar="N", help="of each hostile text")
    args = parser.parse_args()
    with recording("privacy", args) as record:
        ordinary = "How do I locate my card? I ordered it over a week ago. "
        if args.data is not None:
            file = args.data / "privacy" / "pii_sentences.json"
            recall(record, json.loads(file.read_text(encoding="utf-8")))
            questions = list(banking77(args.data / "caching"))
            false_alarms(record, "Banking77", questions)
            false_alarms(record, "CLINC150", list(clinc150(args.data / "caching")))
            ordinary = "\n".join(questions)
        seconds(record, args.characters, ordinary)


if __name__ == "__main__":
    main()
