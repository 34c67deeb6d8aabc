"""Runs pip of the environment: output to the log, progress to the screen, failures in words.

The person's own pip configuration holds; no index is ever named here.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path

from scripts.machine import Missing
from scripts.progress import StepLine, fraction_done

LAST_LINES = 20
LINE_WIDTH = 400
PATIENCE_S = 5.0  # for pip to clean up after an interruption; 1.4 s were seen
_BUILD_FAILED = ("CMake Error", "ninja: build stopped", "FAILED: ")
# What pip says when it cannot reach an index.
_UNREACHABLE = (
    "NewConnectionError",
    "ConnectTimeoutError",
    "Temporary failure in name resolution",
    "nodename nor servname provided",
    "Network is unreachable",
    "Cannot connect to proxy",
    "ReadTimeoutError",
)


def pip(
    environment: Path,
    title: str,
    arguments: Iterable[str],
    *,
    extra: dict[str, str] | None = None,
    keep_open: Iterable[int] = (),
) -> None:
    """``pip install`` with ``arguments``; raises Missing with pip's own last words.

    ``extra`` is added to its process environment; ``keep_open`` are descriptors
    (the lock) it holds for as long as it lives, even when this program is killed.
    """
    command = [str(environment / "bin" / "python"), "-m", "pip", "install", "--no-input", *arguments]
    log = environment / "build.log"
    line = StepLine(title, sys.stdout)
    with log.open("a", encoding="utf-8", errors="replace") as file:
        file.write(f"\n==> {title}\n")
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, "PIP_USER": "0", **(extra or {})},  # user installs cannot go into a venv
            pass_fds=tuple(keep_open),
        )
        last: deque[str] = deque(maxlen=400)
        try:
            for text in _lines_or_ticks(process):
                line.advance(fraction_done(text))
                if text:
                    file.write(text)
                    last.append(text.rstrip())
            code = process.wait()
        except BaseException:
            line.end("interrupted")
            _stop(process)
            raise
    line.end("done" if code == 0 else "failed")
    if code:
        raise Missing(explain(title, list(last), log))


def explain(title: str, lines: list[str], log: Path) -> str:
    """What went wrong, the tool's own last words, and where all of them are."""
    told = [line for line in lines if line.strip() and not line.startswith("[notice]")]
    unreached = [line for line in told if any(sign in line for sign in _UNREACHABLE)]
    built = any(sign in line for line in told for sign in _BUILD_FAILED)
    if any("No space left on device" in line for line in told):
        reason, words = "The disk is full.", told[-LAST_LINES:]
    elif unreached and not built:  # what pip concludes from it, a conflict of versions, would mislead
        reason, words = "pip cannot reach a package index: no network, or a proxy is needed.", unreached[-1:]
    else:
        reason, words = f"This step failed: {title}.", told[-LAST_LINES:]
    quoted = "\n".join(f"    {line[:LINE_WIDTH]}" for line in words)
    return f"{reason} The last words:\n{quoted}\nAll output is in {log}. The next `make` goes on from here."


def _lines_or_ticks(process: subprocess.Popen[str]) -> Iterable[str]:
    """The lines of output as they come, and '' every second without one."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    assert process.stdout
    stream = process.stdout

    def read() -> None:
        for line in stream:
            lines.put(line)
        lines.put(None)

    threading.Thread(target=read, daemon=True).start()
    while True:
        try:
            line = lines.get(timeout=1.0)
        except queue.Empty:
            line = ""
        if line is None:
            return
        yield line


def _stop(process: subprocess.Popen[str]) -> None:
    """Let it end and clean up after itself. Ctrl+C in a terminal has reached it too; a second one would
    stop its cleaning, so it is sent one only when it seems to have heard nothing."""
    for signal_number in (None, signal.SIGINT, signal.SIGKILL):
        if signal_number is not None:
            process.send_signal(signal_number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PATIENCE_S)
            return
