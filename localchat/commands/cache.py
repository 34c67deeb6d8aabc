"""``localchat cache``: the answers of the cloud that were kept, and whether keeping them pays.

Owns flags and what is shown. What may be served is router.cache's business.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from localchat.errors import LocalchatError, UsageError

if TYPE_CHECKING:
    from router.cache.store import Entry, Store
    from router.cache.threshold import Promise


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    def action(name: str, summary: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, help=summary)

    _json(action("stats", "what is kept, how often it was served, and what is promised"))
    listing = action("list", "the newest answers")
    listing.add_argument("-n", "--limit", type=_count, default=20, metavar="N", help="default: %(default)s")
    _json(listing)
    show = action("show", "one answer")
    show.add_argument("id", type=_count)
    _json(show)
    forget = action("forget", "remove one answer")
    forget.add_argument("id", type=_count)
    forget.add_argument("--wrong", action="store_true", help="it was wrong: count it against the promise")
    purge = action("purge", "remove all answers")
    purge.add_argument("--yes", action="store_true", help="without asking")
    _json(action("calibrate", "what the promise rests on: the sample that came along and your verdicts"))
    export = action("export", "all answers as JSON")
    export.add_argument("-o", "--output", type=Path, metavar="FILE", help="instead of standard output")
    study = action("study", "2,000 questions through every tier, beside published figures")
    study.add_argument("--seed", type=int, default=0, metavar="N", help="default: %(default)s")
    study.add_argument("--plot", type=Path, metavar="FILE", help="also draw it (.png or .svg)")
    _json(study)
    _add_worth(action("worth", "whether a cache pays, from rates over all questions and two costs"))


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true")


def _add_worth(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, required=True, metavar="N", help="questions asked")
    parser.add_argument("--hit-rate", type=float, required=True, metavar="R", help="hits, of all questions")
    parser.add_argument("--wrong-rate", type=float, required=True, metavar="R", help="wrong hits, of all")
    parser.add_argument("--call-cost", type=float, required=True, metavar="USD", help="of one call")
    parser.add_argument("--wrong-cost", type=float, required=True, metavar="USD", help="of one wrong answer")
    _json(parser)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**63:  # what SQLite can count
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def run(args: argparse.Namespace) -> int:
    from router.errors import InvalidRequest, RouterError

    actions: dict[str, Callable[[argparse.Namespace], None]] = {
        "stats": _stats, "list": _list, "show": _show, "forget": _forget, "purge": _purge,
        "calibrate": _calibrate, "export": _export, "study": _study, "worth": _worth,
    }  # fmt: skip
    try:
        actions[args.action](args)
    except InvalidRequest as error:
        raise UsageError(error.message, error.next_step) from error
    except RouterError as error:
        raise LocalchatError(error.message, error.next_step) from error
    return 0


@contextmanager
def _store() -> Iterator[Store]:
    from localchat.paths import find_paths
    from router.cache.store import Store

    store = Store(find_paths().answers)
    try:
        yield store
    finally:
        store.close()


def _promise(store: Store) -> Promise:
    from router.cache.embed import MiniLM
    from router.cache.guard.compare import WordGuard
    from router.cache.serving import promise_for, rules_id, shipped_calibration

    own = store.verdicts(rules_id(MiniLM.id, WordGuard.version))
    return promise_for(shipped_calibration(), MiniLM.id, WordGuard.version, own)


def _stats(args: argparse.Namespace) -> None:
    with _store() as store:
        stats, promise = store.stats(), _promise(store)
    if args.json:
        print(json.dumps({**asdict(stats), "promise": _promise_fields(promise)}, indent=1))
        return
    from localchat.commands.table import size, table

    rows = [
        ("answers kept", f"{stats.entries:,} ({stats.expired:,} expired), {size(stats.nbytes)}"),
        ("served", f"{stats.exact_hits:,} repeats, {stats.semantic_hits:,} paraphrases"),
        ("not found", f"{stats.misses:,}"),
        ("rejected", f"{stats.rejected:,}"),
        ("not spent", f"${stats.avoided_usd:.4f}"),
        ("paraphrases", _promise_text(promise)),
    ]
    for line in table(rows):
        print(line)


def _promise_fields(promise: Promise) -> dict[str, object]:
    return {**asdict(promise), "bound": promise.bound}


def _promise_text(promise: Promise) -> str:
    if promise.threshold is None:
        return f"not served: {promise.why_off}"
    return (
        f"served from a similarity of {promise.threshold:.3f} on; at most {promise.epsilon:.0%} of them "
        f"wrong ({promise.wrong} of {promise.hits:,} in the sample, so at most {promise.bound:.2%}, "
        f"{1 - promise.eta:.0%} sure)"
    )


def _list(args: argparse.Namespace) -> None:
    with _store() as store:
        entries = store.entries(args.limit)
    if args.json:
        print(json.dumps([_fields(entry) for entry in entries], ensure_ascii=False, indent=1))
        return
    from localchat.commands.table import table

    now = time.time()
    rows = [
        (str(e.id), _span(now - e.created_at), f"{e.uses} uses", e.model, _one_line(e.question))
        for e in entries
    ]
    for line in table(rows, right={0, 1, 2}) if rows else ():
        print(line)


def _fields(entry: Entry) -> dict[str, object]:
    return asdict(entry)


def _show(args: argparse.Namespace) -> None:
    with _store() as store:
        entry = store.alive(args.id)
    if entry is None:
        raise _unknown(args.id)
    if args.json:
        print(json.dumps(_fields(entry), ensure_ascii=False, indent=1))
        return
    from localchat.plain import plain

    now = time.time()
    print(f"{plain(entry.question)}\n\n{plain(entry.answer)}")
    age, left = _span(now - entry.created_at), _span(entry.expires_at - now)
    who = f"{entry.provider} {entry.model}, profile {entry.profile}"
    print(f"\n{who}; kept {age} ago, for {left} more; used {entry.uses} times", file=sys.stderr)


def _forget(args: argparse.Namespace) -> None:
    with _store() as store:
        gone = store.reject(args.id) if args.wrong else store.forget(args.id)
    if not gone:
        raise _unknown(args.id)
    print(f"Forgotten: {args.id}", file=sys.stderr)


def _unknown(entry: int) -> LocalchatError:
    return LocalchatError(
        f"No answer is kept under {entry}.", "`localchat cache list` shows those there are."
    )


def _purge(args: argparse.Namespace) -> None:
    """A file that cannot be read is removed as well: it is a cache."""
    from localchat.paths import find_paths
    from router.cache.schema import remove_files
    from router.errors import CacheUnavailable

    if not args.yes and not _agrees():
        raise LocalchatError("Nothing was removed.", "`localchat cache purge --yes` does not ask.")
    try:
        with _store() as store:
            print(f"Removed: {store.purge():,} answers", file=sys.stderr)
    except CacheUnavailable as error:
        if not error.unreadable:  # locked, for example: another program works with it
            raise
        remove_files(find_paths().answers)
        print("Removed: a file that could not be read", file=sys.stderr)


def _agrees() -> bool:
    if not sys.stdin.isatty():
        return False
    print("Remove all answers that were kept? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _calibrate(args: argparse.Namespace) -> None:
    from router.cache.embed import MiniLM
    from router.cache.guard.compare import WordGuard
    from router.cache.serving import rules_id, shipped_calibration

    shipped = shipped_calibration()
    with _store() as store:
        promise, own = _promise(store), store.verdicts(rules_id(MiniLM.id, WordGuard.version))
    rejected = sum(not sample.correct for sample in own)
    if args.json:
        fields = {
            "data": shipped.data,
            "licence": shipped.licence,
            "embedder": shipped.embedder,
            "guards": shipped.guards,
            "sample": len(shipped.samples),
            "sample_wrong": sum(not sample.correct for sample in shipped.samples),
            "own": len(own),
            "own_wrong": rejected,
            "promise": _promise_fields(promise),
        }
        print(json.dumps(fields, indent=1))
        return
    print(f"Sample: {len(shipped.samples):,} possible hits from {shipped.data}")
    print(f"        measured with {shipped.embedder}, guards {shipped.guards}")
    print(f"Yours:  {len(own):,} paraphrases served here, {rejected:,} of them rejected")
    print(f"Paraphrases are {_promise_text(promise)}.")


def _export(args: argparse.Namespace) -> None:
    with _store() as store:
        text = json.dumps([_fields(entry) for entry in store.entries()], ensure_ascii=False, indent=1) + "\n"
    if args.output is None:
        sys.stdout.write(text)
        return
    try:
        args.output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{args.output} cannot be written: {error.strerror}.") from error


def _study(args: argparse.Namespace) -> None:
    from localchat.commands.simulate_study import text_of
    from localchat.plotting import Series, check_plot_file, save_lines
    from router.cache.embed import MiniLM
    from router.cache.guard.compare import WordGuard
    from router.cache.serving import promise_for, shipped_calibration
    from router.cache.study import table

    if args.plot:
        check_plot_file(args.plot)
    promised = promise_for(shipped_calibration(), MiniLM.id, WordGuard.version, ())
    found = table(MiniLM(), WordGuard(), promised.threshold, args.seed)
    if args.json:
        print(json.dumps({"seed": args.seed, **found.as_dict()}, indent=1))
    else:
        for line in text_of(found):
            print(line)
    if args.plot:
        drawn = [Series(f"validator {each.label}", each.x, each.y) for each in found.series]
        save_lines(args.plot, drawn, found.x_label, found.y_label, found.title)
        print(f"Drawn: {args.plot}", file=sys.stderr)


def _worth(args: argparse.Namespace) -> None:
    from router.cache.worth import worth

    found = worth(
        calls=args.calls,
        hit_rate=args.hit_rate,
        wrong_rate=args.wrong_rate,
        call_cost_usd=args.call_cost,
        wrong_cost_usd=args.wrong_cost,
    )
    if args.json:
        print(json.dumps({**asdict(found), "net_usd": found.net_usd, "pays": found.pays}, indent=1))
        return
    print(f"saves ${found.saved_usd:,.2f}, loses ${found.lost_usd:,.2f}: net {_dollars(found.net_usd)}")
    verdict = "It pays" if found.pays else "It does not pay"
    print(f"{verdict}; it would up to {found.most_wrong_rate:.2%} wrong answers of all questions.")


def _dollars(value: float) -> str:
    return f"{'−' if value < 0 else ''}${abs(value):,.2f}"


def _span(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _one_line(text: str) -> str:
    shown = " ".join(text.split())
    return shown if len(shown) <= 70 else f"{shown[:69]}…"
