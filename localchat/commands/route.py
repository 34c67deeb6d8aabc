"""``localchat route economics``: what sending easy questions to a cheaper model saves."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from localchat.commands.recorded import add_days, open_record, since

if TYPE_CHECKING:
    from router.economics import Saving
    from router.ledger import Totals


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    economics = actions.add_parser("economics", help="the saving by formula, and your own from the record")
    economics.add_argument(
        "--local-share", type=_share, default=Fraction(4, 5), metavar="S", help="0 to 1 (default: .8)"
    )
    economics.add_argument(
        "--cost-ratio",
        type=_ratio,
        default=Fraction(10),
        metavar="R",
        help="how many times cheaper (default: 10)",
    )
    economics.add_argument("--json", action="store_true")
    add_days(economics)


def _share(text: str) -> Fraction:
    share = _fraction(text)
    if share is None or not 0 <= share <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share from 0 to 1")
    return share


def _ratio(text: str) -> Fraction:
    ratio = _fraction(text)
    if ratio is None or ratio <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a ratio above 0")
    return ratio


def _fraction(text: str) -> Fraction | None:
    """Exact: 0.8 is four fifths."""
    try:
        return Fraction(text) if len(text) <= 20 and "e" not in text.lower() else None
    except (ValueError, ZeroDivisionError):
        return None


def run(args: argparse.Namespace) -> int:
    from router.economics import Saving

    saving = Saving(args.local_share, args.cost_ratio)
    with open_record() as ledger:
        totals = ledger.totals(since=since(args))
    if args.json:
        print(json.dumps(as_json(saving, totals)))
    else:
        print(*lines(saving, totals), sep="\n")
    return 0


def as_json(saving: Saving, totals: Totals) -> dict[str, object]:
    from router.economics import own_saving

    return {
        "local_share": float(saving.local_share),
        "cost_ratio": float(saving.cost_ratio),
        "mean_cost": float(saving.mean_cost),
        "saved": float(saving.saved),
        "own": {
            "saved": own_saving(totals.spent_usd, totals.avoided_usd),
            "spent_usd": totals.spent_usd,
            "spent_unknown": totals.spent_unknown,
            "avoided_usd": totals.avoided_usd,
            "avoided_unknown": totals.avoided_unknown,
            "answers": totals.answers,
        },
    }


def lines(saving: Saving, totals: Totals) -> Iterator[str]:
    share, ratio = float(saving.local_share), float(saving.cost_ratio)
    yield f"{share:.3g} of the queries go to a model that is {ratio:.3g} times cheaper."
    yield f"Mean cost of a query: {share:.3g} / {ratio:.3g} + {1 - share:.3g} = {float(saving.mean_cost):.4g}"
    yield f"Saved: {float(100 * saving.saved):.4g} %"
    yield from _own(totals)


def _own(totals: Totals) -> Iterator[str]:
    from localchat.words import money
    from router.economics import own_saving

    saved = own_saving(totals.spent_usd, totals.avoided_usd)
    if saved is None:
        yield "Your own: unknown; no answer with a known price is recorded yet."
        return
    here = totals.local + totals.cached
    yield (
        f"Your own: {saved:.0%}; {here:,} of {totals.answers:,} answers cost nothing and avoided "
        f"{money(totals.avoided_usd)}, the others cost {money(totals.spent_usd)}."
    )
    unknown = totals.spent_unknown + totals.avoided_unknown
    if unknown:
        yield f"The cost of {unknown:,} more is unknown and in neither sum."
