"""The child spoken to line by line: every command is answered, in whatever order they come."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localchat.engines.protocol import LoadOptions, request_to_wire
from localchat.engines.worker import Worker
from router.request import Delta, Event, Finished, Notice, TokenScore
from tests.localchat.engines.talk import ask

PATIENCE_S = 30.0  # only ends a test that fails
ENDS = ("loaded", "finished", "counted", "failed", "stopped")


class Child:
    """The worker's process and our end of its socket."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "localchat.engines.worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))},
            )
        ours.settimeout(PATIENCE_S)
        self.socket, self.lines = ours, ours.makefile("rb")
        self.last_id = 0

    def send(self, do: str, number: int | None = None, **more: Any) -> int:
        self.last_id += 1
        number = self.last_id if number is None else number
        self.socket.sendall(json.dumps({"do": do, "id": number, **more}).encode() + b"\n")
        return number

    def end_of(self, number: int) -> dict[str, Any]:
        """The message that ends command ``number``; others' messages are passed over."""
        for line in self.lines:
            message: dict[str, Any] = json.loads(line)
            if message["id"] == number and any(end in message for end in ENDS):
                return message
        raise AssertionError(f"the child ended: {self.process.communicate()[0].decode()}")

    def load(self, path: Path) -> dict[str, Any]:
        options = LoadOptions(str(path), threads=1, prefill_threads=1)
        return self.end_of(self.send("load", options=asdict(options)))

    def answer(self, content: str = "hello", max_tokens: int = 3) -> int:
        return self.send("answer", request=request_to_wire(ask(content, max_tokens=max_tokens)))


@pytest.fixture
def child() -> Iterator[Child]:
    child = Child()
    yield child
    child.socket.close()
    child.lines.close()
    child.process.communicate(timeout=PATIENCE_S)


def test_commands_are_answered_in_their_order(child: Child, tiny_model: Path) -> None:
    assert child.load(tiny_model)["loaded"]["engine"] == "llama_cpp"
    numbers = [child.answer(), child.send("count", request=request_to_wire(ask("hello"))), child.answer()]
    ends = [child.end_of(number) for number in numbers]
    assert [next(end for end in ENDS if end in message) for message in ends] == [
        "finished",
        "counted",
        "finished",
    ]
    assert ends[1]["counted"] > 5


@pytest.mark.parametrize("do", ["answer", "count"])
def test_a_command_before_the_model_is_loaded_fails_in_words(child: Child, tiny_model: Path, do: str) -> None:
    number = child.send(do, request=request_to_wire(ask("hello")))
    assert child.end_of(number)["failed"] == {"kind": "load", "message": "no model is loaded"}
    assert "loaded" in child.load(tiny_model)


def test_an_unknown_command_fails_in_words(child: Child, tiny_model: Path) -> None:
    child.load(tiny_model)
    assert "nosuch" in child.end_of(child.send("nosuch"))["failed"]["message"]
    assert "finished" in child.end_of(child.answer())


def test_a_failed_load_can_be_followed_by_another(child: Child, tiny_model: Path, tmp_path: Path) -> None:
    assert child.load(tmp_path / "missing.gguf")["failed"]["kind"] == "load"
    assert "loaded" in child.load(tiny_model)
    assert "finished" in child.end_of(child.answer())


def test_a_stop_is_heard_before_during_and_after_a_command(child: Child, tiny_model: Path) -> None:
    child.load(tiny_model)
    long = child.answer("x", max_tokens=8000)
    waiting = child.answer("y")
    child.send("stop", waiting)
    child.send("stop", long)
    child.send("stop", 12345)
    assert "stopped" in child.end_of(long)
    assert "stopped" in child.end_of(waiting)
    done = child.answer()
    assert "finished" in child.end_of(done)
    child.send("stop", done)
    assert "finished" in child.end_of(child.answer())


def test_what_is_no_command_ends_the_child_with_a_reason(child: Child) -> None:
    child.socket.sendall(b"this is no JSON\n")
    output, _ = child.process.communicate(timeout=PATIENCE_S)
    assert child.process.returncode != 0
    assert b"JSON" in output


def test_the_child_ends_when_its_socket_does(child: Child, tiny_model: Path) -> None:
    child.load(tiny_model)
    child.answer("x", max_tokens=8000)
    child.socket.shutdown(socket.SHUT_RDWR)
    child.process.wait(timeout=PATIENCE_S)


# -- within one process


class Stage:
    """A Worker in a thread, over an engine that the test plays."""

    def __init__(self) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.ours.settimeout(PATIENCE_S)
        self.lines = self.ours.makefile("rb")
        self.exited = threading.Event()

    def open(self, engine: object) -> None:
        worker = Worker(self.theirs)
        worker._engine = engine
        threading.Thread(target=worker.serve, daemon=True).start()

    def leave(self, code: int) -> None:
        """In place of os._exit."""
        self.exited.set()

    def send(self, **command: object) -> None:
        self.ours.sendall(json.dumps(command).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self.lines.readline())
        return message

    def close(self) -> None:
        self.ours.shutdown(socket.SHUT_RDWR)
        assert self.exited.wait(PATIENCE_S)
        for each in (self.lines, self.ours, self.theirs):
            each.close()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    stage = Stage()
    monkeypatch.setattr("localchat.engines.worker.os._exit", stage.leave)
    yield stage
    stage.close()


def engine_of(runtime: object, events: Iterator[Event]) -> SimpleNamespace:
    generator = SimpleNamespace(answer=lambda _: events)
    return SimpleNamespace(runtime=runtime, generator=generator, info=dict, learn=lambda: None)


def test_a_stop_that_meets_the_end_of_its_command_does_not_stop_the_next(stage: Stage) -> None:
    started, stopping, ended = threading.Event(), threading.Event(), threading.Event()
    aborted = False

    class Runtime:
        def abort(self, on: bool) -> None:
            nonlocal aborted
            if on:
                stopping.set()
                ended.wait(0.3)  # the command ends here, unless that has to wait for this
            aborted = on
            if not on:
                ended.set()

    def events() -> Iterator[Event]:
        started.set()
        assert stopping.wait(PATIENCE_S)
        yield Finished("stop")

    stage.open(engine_of(Runtime(), events()))
    stage.send(do="answer", id=1, request=request_to_wire(ask("hello")))
    assert started.wait(PATIENCE_S)
    stage.send(do="stop", id=1)
    while "finished" not in stage.receive():
        pass
    assert ended.wait(PATIENCE_S)
    assert not aborted


def test_deltas_close_in_time_share_a_line_and_none_is_lost(stage: Stage) -> None:
    score = TokenScore(-1.0, 2.0, 3.0)

    def events() -> Iterator[Event]:
        for number in range(200):
            yield Delta(f"{number} ", scores=(score,))
            if number == 100:
                yield Notice("half")
        yield Finished("stop")

    stage.open(engine_of(SimpleNamespace(abort=lambda on: None), events()))
    stage.send(do="answer", id=1, request=request_to_wire(ask("hello")))
    messages = [stage.receive()]
    while "finished" not in messages[-1]:
        messages.append(stage.receive())
    told = [message["event"] for message in messages[:-1]]
    texts = [event["text"] for event in told if "text" in event]
    assert "".join(texts) == "".join(f"{n} " for n in range(200))
    assert sum(len(event["scores"]) for event in told if "scores" in event) == 200
    assert texts[0] == "0 "  # the first is not held back
    assert len(texts) < 150
    before = "".join(event["text"] for event in told[: told.index({"notice": "half"})])
    assert before.endswith(" 100 ")
    assert "end" in told[-1]
