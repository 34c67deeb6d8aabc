"""``localchat history``: conversations, without a screen."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.errors import UsageError

if TYPE_CHECKING:
    from localchat.history import History


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="the newest conversations")
    listing.add_argument("-n", "--limit", type=_number, default=20, metavar="N")
    listing.add_argument("--json", action="store_true")
    search = actions.add_parser("search", help="find words in all messages")
    search.add_argument("words", nargs="+")
    search.add_argument("--json", action="store_true")
    export = actions.add_parser("export", help="one conversation as Markdown or JSON")
    export.add_argument("id", type=_number)
    export.add_argument("--format", choices=("md", "json"), default="md")
    export.add_argument("--reasoning", action="store_true", help="with the model's reasoning (Markdown)")
    export.add_argument("-o", "--output", metavar="FILE", help="instead of standard output")
    rename = actions.add_parser("rename", help="give a conversation another title")
    rename.add_argument("id", type=_number)
    rename.add_argument("title")
    delete = actions.add_parser("delete", help="delete a conversation for good")
    delete.add_argument("id", type=_number)


def _number(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**63:  # what SQLite can count
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from localchat.history import History
    from localchat.paths import find_paths

    with History(find_paths().history) as history:
        {"list": _list, "search": _search, "export": _export, "rename": _rename, "delete": _delete}[
            args.action
        ](history, args)
    return 0


def _list(history: History, args: argparse.Namespace) -> None:
    found = history.conversations(limit=args.limit)
    if args.json:
        rows = [
            {"id": c.id, "title": c.title, "updated_at": c.updated_at, "messages": c.message_count}
            for c in found
        ]
        print(json.dumps(rows, ensure_ascii=False))
        return
    for c in found:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(c.updated_at))
        print(f"{c.id:6}  {when}  {c.message_count:4}  {c.title}")


def _search(history: History, args: argparse.Namespace) -> None:
    hits = history.search(" ".join(args.words))
    if args.json:
        rows = [
            {
                "conversation": h.conversation_id,
                "message": h.message_id,
                "title": h.title,
                "snippet": h.snippet,
            }
            for h in hits
        ]
        print(json.dumps(rows, ensure_ascii=False))
        return
    for hit in hits:
        print(f"{hit.conversation_id:6}  {hit.title}\n        {hit.snippet}")


def _export(history: History, args: argparse.Namespace) -> None:
    from localchat.export import to_json, to_markdown

    info = history.conversation(args.id)
    if args.format == "json":
        text = json.dumps(to_json(info, history.tree(info.id)), ensure_ascii=False, indent=1) + "\n"
    else:
        path = history.path(info.leaf_id) if info.leaf_id is not None else []
        text = to_markdown(info, path, reasoning=args.reasoning)
    if not args.output:
        sys.stdout.write(text)
        return
    try:
        Path(args.output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{args.output} cannot be written: {error.strerror}.") from error


def _rename(history: History, args: argparse.Namespace) -> None:
    history.conversation(args.id)
    history.rename(args.id, args.title)


def _delete(history: History, args: argparse.Namespace) -> None:
    title = history.conversation(args.id).title
    history.delete(args.id)
    print(f"Deleted {args.id}: {title}", file=sys.stderr)
