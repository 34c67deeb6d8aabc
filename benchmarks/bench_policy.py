"""What a decision costs: difficulty of the question and the policy, over many kinds of cases.

python -m benchmarks.bench_policy
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from benchmarks.record import arguments, recording
from benchmarks.train_difficulty import ordinary
from router.budget import Budget
from router.decision import Decision, Estimate, Mode
from router.difficulty import difficulty
from router.policy import Asked, Limits, Side, decide

MODES: tuple[Mode, ...] = ("local", "auto", "cloud")
PASTE = "word " * 30_000
UNUSED = "import sys, localchat.cli; print('router.difficulty' in sys.modules, 'numpy' in sys.modules)"


def cases() -> Iterator[Callable[[], Decision]]:
    """The difficulty of every ordinary prompt and of a paste, decided in many situations."""
    texts = [*ordinary("train").texts, *ordinary("held_out").texts, PASTE]
    rooms = (2048, 8192)
    for text, mode, room, day in itertools.product(texts, MODES, rooms, (None, 0.01, 1.0)):
        local = Side(Estimate("local", "small", 0.5, 6.0, 0.0), len(text) // 4, room)
        cloud = Side(Estimate("cloud", "large", 1.0, 4.0, 0.002), len(text) // 4, 128_000, 0.02)
        yield partial(decided, text, local, cloud, Budget(day), mode)


def decided(text: str, local: Side, cloud: Side, budget: Budget, mode: Mode) -> Decision:
    return decide(Asked(difficulty(text), 512), local, cloud, budget, mode, Limits(ttft_s=2.0))


def p99_ms(decisions: list[Callable[[], Decision]]) -> float:
    took = []
    for make in decisions:
        started = time.perf_counter()
        make()
        took.append(1000 * (time.perf_counter() - started))
    return float(np.quantile(took, 0.99))


def first_ms() -> float:
    """Of a process's first question, the weights' loading included, numpy imported before."""
    code = (
        "import time, numpy; began = time.perf_counter(); from router.difficulty import difficulty; "
        "difficulty('2+2'); print(1000 * (time.perf_counter() - began))"
    )
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)


def main() -> None:
    args = arguments(__doc__).parse_args()
    with recording("policy", args) as record:
        decisions = list(cases())
        p99_ms(decisions[:100])  # the weights are loaded
        record.row("p99 of a decision", [p99_ms(decisions) for _ in range(args.repeats)], "ms", "≤ 1")
        record.row("first decision of a process", [first_ms() for _ in range(args.repeats)], "ms")
        unused = subprocess.run([sys.executable, "-c", UNUSED], capture_output=True, check=True, text=True)
        record.row("modules of it imported at start-up", unused.stdout.count("True"), "", "= 0")


if __name__ == "__main__":
    main()
