"""``localchat log``: the record of answers: list, show, export, sum up, replay under another policy."""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localchat.commands.recorded import add_days, number, open_record, since
from localchat.errors import UsageError

if TYPE_CHECKING:
    from router.ledger import Entry, Ledger, Totals
    from router.replay import Replayed

SOURCES = ("local", "cloud", "cache")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the newest answers")
    listing.add_argument("-n", "--limit", type=number, default=20, metavar="N")
    listing.add_argument("--conversation", type=number, metavar="ID")
    listing.add_argument("--from", dest="source", choices=SOURCES, default="", help="who answered")
    listing.add_argument("--json", action="store_true")
    show = actions.add_parser("show", help="everything that is recorded of one answer, as JSON")
    show.add_argument("id", help="or as much of it as names one entry")
    export = actions.add_parser("export", help="all entries as JSON lines or CSV, the oldest first")
    export.add_argument("--format", choices=("jsonl", "csv"), default="jsonl")
    export.add_argument("-o", "--output", metavar="FILE", help="instead of standard output")
    replay = actions.add_parser("replay", help="what other policies would have done with these answers")
    replay.add_argument(
        "--policy",
        nargs="+",
        default=["recorded", "local", "cloud"],
        metavar="P",
        help="recorded, local, cloud, 'difficulty>=X' or 'length>=TOKENS' (of the prompt)",
    )
    replay.add_argument("--json", action="store_true")
    summary = actions.add_parser("summary", help="tokens, money, seconds, and bytes that stayed here")
    summary.add_argument("--json", action="store_true")
    for each in (listing, export, replay, summary):
        add_days(each)


def run(args: argparse.Namespace) -> int:
    actions = {"list": _list, "show": _show, "export": _export, "replay": _replay, "summary": _summary}
    with open_record() as ledger:
        actions[args.action](ledger, args)
    return 0


def _list(ledger: Ledger, args: argparse.Namespace) -> None:
    from localchat.commands.table import table

    found = ledger.entries(
        limit=args.limit, since=since(args), conversation_id=args.conversation, answered_by=args.source
    )
    if args.json:
        print(json.dumps([as_json(entry) for entry in found], ensure_ascii=False))
    elif found:
        heads = ("id", "when", "from", "model", "tokens", "took", "cost", "ended")
        print(*table([heads, *map(_cells, found)], right=(4, 5, 6)), sep="\n")


def _cells(entry: Entry) -> tuple[str, ...]:
    from localchat.words import duration, money

    usage = entry.usage
    tokens = f"{usage.prompt_tokens:,} + {usage.completion_tokens:,}" if usage else "unknown"
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.started_at))
    source = f"{entry.answered_by}, SIMULATED" if entry.is_simulated else entry.answered_by
    ended = ", ".join([entry.outcome, *(f"not {v.validator}" for v in entry.verdicts if not v.passed)])
    return entry.id, when, source, entry.model, tokens, duration(entry.total_s), money(entry.cost_usd), ended


def as_json(entry: Entry) -> dict[str, Any]:
    """Texts only where they were recorded."""
    return {name: value for name, value in asdict(entry).items() if name not in ("prompt", "answer") or value}


def _show(ledger: Ledger, args: argparse.Namespace) -> None:
    print(json.dumps(as_json(ledger.entry(args.id)), ensure_ascii=False, indent=1))


def _export(ledger: Ledger, args: argparse.Namespace) -> None:
    found = ledger.entries(limit=None, since=since(args), with_texts=True)[::-1]
    text = "".join(_csv(found) if args.format == "csv" else _json_lines(found))
    if not args.output:
        sys.stdout.write(text)
        return
    try:
        Path(args.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{args.output} cannot be written: {error.strerror}.") from error


def _json_lines(entries: list[Entry]) -> Iterator[str]:
    return (json.dumps(as_json(entry), ensure_ascii=False) + "\n" for entry in entries)


def _csv(entries: list[Entry]) -> Iterator[str]:
    """One column a field; of nested ones, JSON. What is unknown is an empty cell."""
    from router.ledger import Entry

    names = list(Entry.__dataclass_fields__)
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(names)
    for entry in entries:
        row = asdict(entry)
        writer.writerow([_cell(row[name]) for name in names])
    yield out.getvalue()


def _cell(value: Any) -> object:
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False) if value else ""
    # A spreadsheet would run it: https://owasp.org/www-community/attacks/CSV_Injection
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t")) else value


def _replay(ledger: Ledger, args: argparse.Namespace) -> None:
    from router.replay import replay

    entries = ledger.entries(limit=None, since=since(args))
    found = [replay(policy, entries) for policy in args.policy]
    if args.json:
        print(json.dumps([{**asdict(each), "cloud_share": each.cloud_share} for each in found]))
        return
    from localchat.commands.table import table

    heads = ("policy", "answers", "to the cloud", "cost", "expected time", "")
    print(*table([heads, *map(_replayed, found)], right=(1, 2, 3, 4)), sep="\n")


def _replayed(each: Replayed) -> tuple[str, ...]:
    from localchat.words import duration, money

    notes = [
        f"{each.fixed} had to stay" if each.fixed else "",
        f"{each.undecided} stay for want of a figure" if each.undecided else "",
        f"cost of {each.cost_unknown} unknown" if each.cost_unknown else "",
        f"time of {each.seconds_unknown} unknown" if each.seconds_unknown else "",
    ]
    known = each.answers > each.seconds_unknown
    share = "" if each.cloud_share is None else f"{each.to_cloud:,} ({each.cloud_share:.0%})"
    cost = money(each.cost_usd if each.answers > each.cost_unknown else None)
    seconds = duration(each.seconds if known else None)
    return each.policy, f"{each.answers:,}", share, cost, seconds, "; ".join(filter(None, notes))


def _summary(ledger: Ledger, args: argparse.Namespace) -> None:
    totals = ledger.totals(since=since(args))
    if args.json:
        print(json.dumps(asdict(totals)))
    else:
        print(*summary(totals), sep="\n")


def summary(totals: Totals) -> Iterator[str]:
    from localchat.words import duration, money

    if not totals.answers:
        yield "No answers are recorded yet."
        return
    made_up = f" ({totals.simulated:,} of them SIMULATED)" if totals.simulated else ""
    yield (
        f"{totals.answers:,} answers: {totals.local:,} by this machine, {totals.cached:,} from the cache, "
        f"{totals.cloud:,} by the cloud{made_up}."
    )
    tokens = f"{totals.prompt_tokens:,} in, {totals.completion_tokens:,} out"
    yield f"Tokens: {tokens}{_besides(totals.tokens_unknown)}."
    yield f"Time: {duration(totals.seconds)}{_besides(totals.seconds_unknown)}."
    yield f"Spent: {money(totals.spent_usd)}{_besides(totals.spent_unknown)}."
    if totals.simulated_usd:
        yield f"A real cloud would have taken {money(totals.simulated_usd)} for what was simulated."
    yield f"Avoided: {money(totals.avoided_usd)}{_besides(totals.avoided_unknown)}."
    kept, sent = f"{totals.kept_bytes:,} bytes", f"{totals.sent_bytes:,}"
    yield f"Text of requests that stayed on this machine: {kept}; that left it: {sent}."


def _besides(unknown: int) -> str:
    return f", and an unknown sum for {unknown:,} answers" if unknown else ""
