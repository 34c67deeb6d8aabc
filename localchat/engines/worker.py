"""The child process that runs a model: commands in, events out, one JSON object a line.

Owns the process: its socket, its command reader, its exit when the parent is gone.
Whatever native code prints goes to the file the parent gave as stdout and stderr.
Commands (``do``): load, answer, count, vote, measure, stop. Every answer to a command
carries its ``id`` and ends with one of loaded, finished, counted, voted, measured, failed, stopped.
"""

from __future__ import annotations

import gc
import json
import os
import queue
import socket
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from localchat.engines.protocol import Measure, event_to_wire, options_from_wire, request_from_wire
from localchat.engines.runtime import Aborted, LoadFailed
from router.errors import ContextOverflow, InvalidRequest
from router.request import Delta, Event, TokenScore

FLUSH_S = 0.05
"""Deltas within this time share a line: each one wakes the parent, which takes a
core away from the decoding threads."""

Command = dict[str, Any]


class Worker:
    """Runs commands one after another; ``stop`` is heard at any time."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._running: int | None = None
        self._stopping = threading.Lock()
        self._stopped: set[int] = set()
        self._engine: Any = None  # localchat.engines.load.Engine, imported late

    def serve(self) -> None:
        threading.Thread(target=self._listen, daemon=True).start()
        while True:
            command = self._commands.get()
            self._running = command["id"]
            try:
                self._run(command)
            finally:
                with self._stopping:
                    self._running = None
                    if self._engine:
                        self._engine.runtime.abort(False)

    def _listen(self) -> None:
        """In a thread of its own, so that a stop is heard in the middle of a prefill."""
        try:
            self._hear()
        except Exception:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)  # the parent is gone; nothing here is worth an orderly end

    def _hear(self) -> None:
        for line in self._connection.makefile("rb"):
            command = json.loads(line)
            if command["do"] == "stop":
                with self._stopping:  # or it could meet the command after the one it means
                    self._stopped.add(command["id"])
                    if self._running == command["id"] and self._engine:
                        self._engine.runtime.abort(True)
            else:
                self._commands.put(command)

    def _run(self, command: Command) -> None:
        number = command["id"]
        if number in self._stopped:
            return self._send(number, stopped=True)
        try:
            if command["do"] != "load" and self._engine is None:
                raise LoadFailed("no model is loaded")
            match command["do"]:
                case "load":
                    self._load(command)
                case "answer":
                    self._answer(command)
                case "count":
                    request = request_from_wire(command["request"])
                    tokens = self._engine.generator.prompt_tokens(request.messages)
                    self._send(number, counted=len(tokens))
                case "vote":
                    request = request_from_wire(command["request"])
                    votes = self._engine.generator.vote(request, command["count"])
                    self._send(number, voted=asdict(votes))
                case "measure":
                    measured = self._engine.generator.measure(Measure(**command["wanted"]))
                    self._send(number, measured=asdict(measured))
                case unknown:
                    raise LoadFailed(f"the engine knows no command {unknown!r}")
        except Aborted:
            self._send(number, stopped=True)
        except (LoadFailed, MemoryError) as error:
            self._send(number, failed={"kind": "load", "message": str(error) or "out of memory"})
        except ContextOverflow as error:
            counts = (error.prompt_tokens, error.window_tokens, error.reserved_tokens)
            self._send(number, failed={"kind": "overflow", "counts": counts})
        except InvalidRequest as error:
            self._send(number, failed={"kind": "invalid", "message": error.message, "next": error.next_step})

    def _load(self, command: Command) -> None:
        from localchat.engines.load import load_engine

        number = command["id"]

        def report(event: Event) -> bool:
            self._send(number, event=event_to_wire(event))
            return number not in self._stopped

        self._engine = load_engine(options_from_wire(command["options"]), report)
        gc.collect()
        gc.freeze()  # what is loaded stays: no collection looks at it again
        self._send(number, loaded=self._engine.info())

    def _answer(self, command: Command) -> None:
        request = request_from_wire(command["request"])
        for event in self._gathered(self._engine.generator.answer(request)):
            self._send(command["id"], event=event_to_wire(event))
        self._send(command["id"], info=self._engine.info(), finished=True)
        self._engine.learn()

    def _gathered(self, events: Iterator[Event]) -> Iterator[Event]:
        """Deltas joined within FLUSH_S; the first is sent at once."""
        text, scores, sent = "", list[TokenScore](), 0.0
        for event in events:
            if isinstance(event, Delta):
                text += event.text
                scores += event.scores
                if time.monotonic() - sent < FLUSH_S:
                    continue
            if scores or text:
                yield Delta(text, scores=tuple(scores))
                text, scores, sent = "", [], time.monotonic()
            if not isinstance(event, Delta):
                yield event

    def _send(self, number: int, **message: Any) -> None:
        line = json.dumps({"id": number, **message}, separators=(",", ":"))
        self._connection.sendall(line.encode() + b"\n")


def main() -> None:
    connection = socket.socket(fileno=int(sys.argv[1]))
    try:
        Worker(connection).serve()
    except (BrokenPipeError, ConnectionResetError):
        os._exit(0)


if __name__ == "__main__":
    main()
