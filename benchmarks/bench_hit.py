"""From the key that sends a question to the first text of an answer from the cache, in a real terminal.

The chat is the real one, with the real embedder, guards and store; a scripted model stands in for the
cloud, which is asked once. Each question is asked in a new conversation: the same words, and other words.

    python -m benchmarks.bench_hit [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.bench_tui import Terminal
from benchmarks.record import Record, arguments, recording

ASKED = "What is the capital of France?"
REPHRASED = "Which city is the capital of France?"
ANSWER = "It is Paris, on the Seine."


def child(folder: Path) -> None:
    from localchat.compose import Program, build_catalog, build_dispatch
    from localchat.compose.routing import Routing
    from localchat.history import History
    from localchat.paths import Paths
    from localchat.session import Session
    from localchat.settings import RoutingSettings, Settings
    from localchat.tui.app import run_app
    from router.request import Finished, Usage
    from router.scripted import ScriptedBackend

    paths = Paths(folder, folder, folder)
    settings = Settings(routing=RoutingSettings(mode="cloud"))
    routing = Routing(settings, paths)
    routing.__dict__["_cloud"] = ScriptedBackend((ANSWER, Finished("stop", Usage(9, 0, 7), cost_usd=0.0)))
    model, history = ScriptedBackend(), History(folder / "history.db")
    session = Session(history, build_dispatch(model, None, routing), settings.sampling, "", "cloud")
    program = Program(
        settings, paths, build_catalog(paths), history, model, session, lambda name: model, routing=routing
    )
    run_app(program)


def to_first_text_ms(app: Terminal, question: str) -> float:
    app.type("\x0e")  # ctrl+n: a new conversation
    app.watch(1.0)
    app.type(question)
    app.watch(1.0)
    began = time.perf_counter()
    app.type("\r")
    app.wait_for("Seine")
    return 1000 * (time.perf_counter() - began)


def measure(record: Record) -> None:
    with tempfile.TemporaryDirectory() as name:
        app = Terminal("", Path(name), module="benchmarks.bench_hit")
        try:
            app.wait_for("New conversation")
            app.watch(3.0)
            for _ in range(2):  # the first one asks the cloud and loads what later ones have
                to_first_text_ms(app, ASKED)
            for words, question in (("the same words", ASKED), ("other words", REPHRASED)):
                times = [to_first_text_ms(app, question) for _ in range(record.repeats)]
                record.row(f"{words}, median", statistics.median(times), "ms", "≤ 50")
                record.row(f"{words}, longest of {len(times)}", max(times), "ms")
        finally:
            app.close()


def main() -> None:
    parser = arguments(__doc__, repeats=15)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.folder:
        child(args.folder)
        return
    with recording("hit", args) as record:
        measure(record)


if __name__ == "__main__":
    main()
