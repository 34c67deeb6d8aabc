"""``localchat simulate workload``: a made-up list of requests, as ``simulate run`` reads it.

Owns flags and the CSV (vidur's columns). Arrivals and lengths are router.simcloud.workload's.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from typing import Any

from localchat.commands.simulate_numbers import NOT_NEGATIVE, POSITIVE, check_numbers

COLUMNS = ("arrived_at", "num_prefill_tokens", "num_decode_tokens")
RULES = {
    "rate": POSITIVE,
    "burst": POSITIVE,
    "count": POSITIVE,
    "prompt": POSITIVE,
    "answer": POSITIVE,
    "spread": NOT_NEGATIVE,
    "longest": POSITIVE,
}


def add_arguments(actions: Any) -> None:
    parser = actions.add_parser("workload", help="make up a list of requests, to standard output")
    add = parser.add_argument
    add("--rate", type=float, default=4.0, metavar="N", help="requests/s, default: 4")
    add("--burst", type=float, default=1.0, metavar="CV", help="variation of gaps: 1 is Poisson (default)")
    add("--count", type=int, default=1000, metavar="N", help="of requests, default: 1000")
    add("--prompt", type=int, default=512, metavar="N", help="median tokens of a prompt, default: 512")
    add("--answer", type=int, default=128, metavar="N", help="median tokens of an answer, default: 128")
    add("--spread", type=float, default=0.7, metavar="S", help="of the lengths' logarithm, default: 0.7")
    add("--longest", type=int, default=8192, metavar="N", help="cut longer ones, default: 8192")
    add("--seed", type=int, default=0, metavar="N", help="the same seed, the same list")


def run(args: argparse.Namespace) -> int:
    from router.simcloud.workload import bursty, lognormal, open_loop

    check_numbers(args, RULES)
    draw = random.Random(args.seed)
    lengths = lognormal(args.prompt, args.answer, args.spread, args.longest)
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(COLUMNS)
    for job in open_loop(bursty(args.rate, args.burst, draw), lengths, args.count, draw):
        lines.writerow((f"{job.request.arrived_s:.6f}", job.request.prompt_tokens, job.length))
    return 0
