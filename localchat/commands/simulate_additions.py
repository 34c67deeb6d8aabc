"""Flags of ``localchat simulate run`` for what is added to an engine: host work, masks, retries, drafts.

Owns those flags and what they mean. Imports the simulator only when they are read.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from localchat.errors import UsageError

if TYPE_CHECKING:
    from router.simcloud.additions import Additions
    from router.simcloud.host import HostWork
    from router.simcloud.retries import Retries


def add_arguments(add: Callable[..., object]) -> None:
    add("--preferred", metavar="N,N", help="triton: batch sizes that are sent once they can be formed")
    add(
        "--max-queue-delay",
        type=float,
        default=0.0,
        metavar="MS",
        help="triton: wait for a batch, default: 0",
    )
    add(
        "--host-us", type=float, default=0.0, metavar="US", help="CPU for each sequence and step (detokenise)"
    )
    add("--tokenise-us", type=float, default=0.0, metavar="US", help="CPU for each token of a prompt")
    add("--serial-host", action="store_true", help="that CPU work before the next step, not beside it")
    add("--constrained", action="store_true", help="a grammar's mask for every token; all answers are valid")
    add("--mask-us", type=float, metavar="US", help="CPU for one mask, default: 50")
    add("--mask-cores", type=int, default=1, metavar="N", help="cores that compute masks, default: 1")
    add("--retry-rate", type=float, metavar="P", help="chance that an answer is invalid and asked again")
    add("--max-tries", type=int, default=10, metavar="N", help="of one answer, default: 10")
    add("--speculate", type=int, metavar="N", help="tokens drafted and verified in one step")
    add("--acceptance", type=float, default=0.7, metavar="P", help="chance of a draft, default: 0.7")
    add("--draft", metavar="NAME", help="the model that drafts; default: n-grams, which cost nothing")


def additions(args: argparse.Namespace) -> Additions:
    from router.simcloud.additions import Additions
    from router.simcloud.host import HostWork
    from router.simcloud.speculation import Speculation

    host = None
    if args.host_us or args.tokenise_us:
        host = HostWork(args.host_us * 1e-6, args.tokenise_us * 1e-6, overlapped=not args.serial_host)
    speculation = None
    if args.speculate is not None:
        speculation = Speculation(args.speculate, args.acceptance, args.seed)
    elif args.draft is not None:
        raise UsageError("--draft says who drafts, --speculate N how many tokens.", "Give both.")
    return Additions(host, _masks(args), speculation, args.draft)


def _masks(args: argparse.Namespace) -> HostWork | None:
    from router.simcloud.host import MASK_S_PER_TOKEN, masks

    if not args.constrained:
        return None
    each_s = MASK_S_PER_TOKEN if args.mask_us is None else args.mask_us * 1e-6
    return masks(each_s, args.mask_cores)


def retries(args: argparse.Namespace) -> Retries | None:
    """None where nobody asks whether answers are valid."""
    from router.simcloud.retries import Retries

    if args.retry_rate is None and not args.constrained:
        return None
    if args.retry_rate and args.constrained:
        raise UsageError("Constrained answers are always valid.", "Leave --retry-rate or --constrained out.")
    return Retries(args.retry_rate or 0.0, args.max_tries, args.seed)


def policy_options(args: argparse.Namespace) -> dict[str, object]:
    return {"preferred": sizes(args.preferred), "max_delay_s": args.max_queue_delay / 1000}


def sizes(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in (text or "").split(",") if size)
    except ValueError as error:
        raise UsageError(f"{text!r} is no list of batch sizes.", "Write them as 4,8,16.") from error
