"""``localchat explain``: one answer's story in plain words."""

from __future__ import annotations

import argparse
import json

from localchat.commands.recorded import open_record
from localchat.errors import LocalchatError
from localchat.plain import plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", nargs="?", default="", help="from `localchat log list`; default: the last answer"
    )
    parser.add_argument("--json", action="store_true", help="the recorded entry and the story")


def run(args: argparse.Namespace) -> int:
    from localchat.commands.log import as_json
    from localchat.story import story

    with open_record() as ledger:
        newest = [] if args.id else ledger.entries(limit=1)
        if not args.id and not newest:
            raise LocalchatError("No answer is recorded yet.", "Ask something first: localchat ask")
        entry = ledger.entry(args.id or newest[0].id)
    lines = [plain(line) for line in story(entry)]
    if args.json:
        print(json.dumps({"entry": as_json(entry), "story": lines}, ensure_ascii=False))
    else:
        print(*lines, sep="\n")
    return 0
