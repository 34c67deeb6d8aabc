"""What the terminal app itself costs, measured in a real pseudo-terminal.

A scripted backend stands in for the model, so all CPU time is the app's own.
Scenarios: 20 s of streaming at 40 tokens/s (a long list, a long code fence),
10 s of idling, the echo of keys in a conversation of 1,000 messages, and the
CPU time of a fresh process up to its first paint.

    python -m benchmarks.bench_tui [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import os
import pty
import re
import select
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.record import Record, arguments, recording

TOKENS_PER_S = 40
CHARS_PER_TOKEN = 4
MESSAGES = 1_000
COLUMNS, ROWS = 100, 30
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?<=>$]*[a-zA-Z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")


# -- the child: the app over a scripted model


def child(scenario: str, folder: Path) -> None:
    from localchat.compose import Program, build_catalog
    from localchat.history import History
    from localchat.paths import Paths
    from localchat.session import Session
    from localchat.settings import Settings
    from localchat.tui.app import run_app
    from router.dispatch import Dispatch
    from router.request import ChatRequest, Delta, Event, TokenScore
    from router.scripted import ScriptedBackend

    score = TokenScore(logprob=-0.1, margin=2.0, entropy=0.5)

    class Paced(ScriptedBackend):
        async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
            text = {"list": long_list, "fence": long_fence}[scenario]()
            started = asyncio.get_running_loop().time()
            for sent, at in enumerate(range(0, len(text), CHARS_PER_TOKEN), 1):
                due = started + sent / TOKENS_PER_S
                await asyncio.sleep(max(0.0, due - asyncio.get_running_loop().time()))
                yield Delta(text[at : at + CHARS_PER_TOKEN], scores=(score,))

    history = History(folder / "history.db")
    if scenario == "keys" and not history.conversations(1):
        fill(history)
    conversations = history.conversations(1)
    paths = Paths(folder, folder, folder)
    model = Paced()
    settings = Settings()
    session = Session(history, Dispatch(model), settings.sampling)
    catalog = build_catalog(paths)
    program = Program(settings, paths, catalog, history, model, session, lambda name: model)
    run_app(program, initial_conversation=conversations[0].id if conversations else None)


def long_list() -> str:
    return "".join(f"- item {n} of a list that goes on, with **weight** and `code`\n" for n in range(2_000))


def long_fence() -> str:
    return "```python\n" + "".join(f"value_{n} = compute(value_{n - 1}, {n})\n" for n in range(2_000))


def fill(history: object) -> None:
    from localchat.history import History

    assert isinstance(history, History)
    info = history.new_conversation("A long conversation")
    parent = None
    for n in range(MESSAGES // 2):
        parent = history.add(info.id, parent, "user", f"Question {n}: what about **{n}**?").id
        answer = f"Answer {n}.\n\n- one\n- two\n\n```python\nprint({n})\n```\n\nThat is all about {n}."
        parent = history.add(info.id, parent, "assistant", answer).id


# -- the parent: a terminal that types and watches


class Terminal:
    """A program running in a pseudo-terminal."""

    def __init__(self, scenario: str, folder: Path, module: str = "benchmarks.bench_tui") -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        command = [sys.executable, "-m", module, "--child", scenario, "--folder", str(folder)]
        environ = os.environ | {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self._process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environ, start_new_session=True
        )
        os.close(slave)
        self._usage = psutil.Process(self._process.pid)
        self._recent = ""

    def cpu_s(self) -> float:
        times = self._usage.cpu_times()
        return times.user + times.system

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def read(self, timeout_s: float) -> str:
        """What arrives within ``timeout_s``, without escape sequences."""
        if not select.select([self._master], [], [], timeout_s)[0]:
            return ""
        return _ESCAPES.sub("", os.read(self._master, 1 << 16).decode(errors="replace"))

    def watch(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.read(left)

    def wait_for(self, text: str, timeout_s: float = 30.0) -> None:
        end, seen = time.monotonic() + timeout_s, ""
        while text not in seen:
            if time.monotonic() > end:
                raise TimeoutError(f"{text!r} never appeared; last: {seen[-400:]!r}")
            seen = (seen + self.read(0.1))[-20_000:]

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._master)


@contextmanager
def terminal(scenario: str, folder: Path) -> Iterator[Terminal]:
    running = Terminal(scenario, folder)
    try:
        yield running
    finally:
        running.close()


def first_paint_cpu_s(folder: Path) -> float:
    with terminal("idle", folder) as app:
        app.wait_for("New conversation")
        return app.cpu_s()


def idle_share(folder: Path, seconds: float) -> float:
    with terminal("idle", folder) as app:
        app.wait_for("New conversation")
        app.watch(4.0)
        before = app.cpu_s()
        app.watch(seconds)
        return 100 * (app.cpu_s() - before) / seconds


def streaming_share(scenario: str, folder: Path, seconds: float) -> float:
    with terminal(scenario, folder) as app:
        app.wait_for("New conversation")
        app.watch(2.0)
        app.type("go\r")
        app.watch(2.0)
        before = app.cpu_s()
        app.watch(seconds)
        share = 100 * (app.cpu_s() - before) / seconds
        app.wait_for("tokens/s")  # it still streams
        return share


def key_echoes_ms(folder: Path, keys: int) -> list[float]:
    with terminal("keys", folder) as app:
        app.wait_for(f"Answer {MESSAGES // 2 - 1}", timeout_s=60)
        app.watch(4.0)
        return sorted(_echo_ms(app, "abcdefghijklmnopqrstuvwxyz"[n % 26]) for n in range(keys))


def _echo_ms(app: Terminal, key: str) -> float:
    app.watch(0.03)
    started = time.perf_counter()
    app.type(key)
    while key not in app.read(1.0):
        pass
    return 1000 * (time.perf_counter() - started)


def measure(record: Record, quick: bool) -> None:
    seconds, rate = (5.0 if quick else 20.0), f"at {TOKENS_PER_S} tokens/s"
    with tempfile.TemporaryDirectory() as name:
        folders = {part: Path(name) / part for part in ("idle", "list", "fence", "keys")}
        for folder in folders.values():
            folder.mkdir()
        paints = [first_paint_cpu_s(folders["idle"]) for _ in range(record.repeats)]
        record.row("first paint, fresh process", paints, "s CPU", "≤ 0.6")
        record.row("idle", idle_share(folders["idle"], seconds / 2), "% of a core", "≤ 0.5")
        for scenario in ("list", "fence"):
            share = streaming_share(scenario, folders[scenario], seconds)
            record.row(f"a long {scenario} streams {rate}", share, "% of a core", "≤ 10")
        echoes_ms = key_echoes_ms(folders["keys"], 100 if quick else 400)
        record.row(f"echo of a key, {MESSAGES:,} messages, median", statistics.median(echoes_ms), "ms")
        record.row(
            f"echo of a key, {MESSAGES:,} messages, p99", echoes_ms[int(len(echoes_ms) * 0.99)], "ms", "≤ 30"
        )


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--quick", action="store_true", help="shorter runs, rougher figures")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(args.child, args.folder)
        return
    with recording("tui", args) as record:
        measure(record, args.quick)


if __name__ == "__main__":
    main()
