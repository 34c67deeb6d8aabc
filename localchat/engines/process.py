"""The program's side of an engine: a model in a child process, as a LocalModel.

Owns the child: starting it, reading its events, stopping a computation, noticing
its death. A crash, an out-of-memory kill or anything native code prints stays
there; the next request starts a new child and says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import asdict, replace
from typing import IO, Any

from localchat.engines.protocol import (
    LoadOptions,
    Measure,
    Measurement,
    Votes,
    event_from_wire,
    measurement_from_wire,
    request_to_wire,
)
from router.backend import ModelInfo
from router.errors import BackendCrashed, ContextOverflow, InvalidRequest, ModelUnavailable, RouterError
from router.request import ChatRequest, Delta, Event, Finished, Message, Notice

STOP_PATIENCE_S = 2.0  # then the child is killed
LINE_LIMIT = 1 << 24
LAST_WORDS = ("loaded", "finished", "counted", "voted", "measured", "failed", "stopped")
"""One of them is in the last message about a command; see worker.py."""

Diagnose = Callable[[], str]
"""Says in one line what is wrong with the model file, or '' when it looks right."""


class EngineModel:
    """Implements :class:`router.backend.LocalModel` over one child process."""

    def __init__(self, name: str, options: LoadOptions, diagnose: Diagnose = lambda: "") -> None:
        self.model = name
        self.info: ModelInfo | None = None
        self._options = options
        self._diagnose = diagnose
        self._child: _Child | None = None
        self._died = False  # of its own, since the last request
        self._turn = asyncio.Lock()
        self._stopping: asyncio.Task[None] | None = None
        self._last_id = 0

    @property
    def options(self) -> LoadOptions:
        return self._options

    @property
    def pid(self) -> int | None:
        """Of the child, while there is one."""
        return self._child.pid if self._child else None

    def start(self) -> None:
        """Start the child and its loading now; needs no event loop. Idempotent."""
        if self._child is None:
            self._child = _Child()
            self._child.send({"do": "load", "id": 0, "options": asdict(self._options)})

    async def load(self) -> AsyncGenerator[Event, None]:
        async with self._my_turn(), contextlib.aclosing(self._loaded()) as events:
            async for event in events:
                yield event

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        called = time.perf_counter()
        async with self._my_turn():
            idle_before, heard = self.info is not None, False
            try:
                async with contextlib.aclosing(self._answer(request, called)) as events:
                    async for event in events:
                        heard = True
                        yield event
                return
            except BackendCrashed:
                if heard or not idle_before:
                    raise
            # It died between two requests: nothing of this one is lost.
            async with contextlib.aclosing(self._answer(request, called)) as events:
                async for event in events:
                    yield event

    async def _answer(self, request: ChatRequest, called: float) -> AsyncGenerator[Event, None]:
        load_s = first_text_s = 0.0
        if self._must_load():
            async with contextlib.aclosing(self._loaded()) as events:
                async for event in events:
                    yield event
            load_s = time.perf_counter() - called
        async with contextlib.aclosing(self._command("answer", request=request_to_wire(request))) as messages:
            async for message in messages:
                if "info" in message:
                    self.info = ModelInfo(name=self.model, **message["info"])
                if "event" not in message:
                    continue
                event = event_from_wire(message["event"])
                if isinstance(event, Delta) and not first_text_s:
                    first_text_s = time.perf_counter() - called
                if isinstance(event, Finished):
                    timings = replace(event.timings, load_s=load_s, ttft_s=first_text_s)
                    event = replace(event, model=self.model, timings=timings)
                yield event

    async def count_tokens(self, messages: Sequence[Message]) -> int:
        async with self._my_turn():
            async with contextlib.aclosing(self._loaded()) as events:
                async for _ in events:
                    pass
            request = request_to_wire(ChatRequest(tuple(messages)))
            async with contextlib.aclosing(self._command("count", request=request)) as answers:
                async for message in answers:
                    return int(message["counted"])
        raise BackendCrashed("The engine gave no count.", "Try again.")

    async def vote(self, request: ChatRequest, count: int) -> Votes:
        """``count`` short answers drawn side by side, in as many steps as the longest of them has tokens;
        their agreement says how sure the model is. Other requests wait. Loads if need be."""
        async with self._my_turn():
            async with contextlib.aclosing(self._loaded()) as events:
                async for _ in events:
                    pass
            wire = request_to_wire(request)
            async with contextlib.aclosing(self._command("vote", request=wire, count=count)) as answers:
                async for message in answers:
                    if "voted" in message:
                        return Votes(tuple(message["voted"]["answers"]), message["voted"]["decode_calls"])
        raise BackendCrashed("The engine gave no votes.", "Try again.")

    async def measure(self, wanted: Measure) -> Measurement:
        """Time the loaded model; other requests wait. Loads if need be."""
        async with self._my_turn():
            async with contextlib.aclosing(self._loaded()) as events:
                async for _ in events:
                    pass
            async with contextlib.aclosing(self._command("measure", wanted=asdict(wanted))) as answers:
                async for message in answers:
                    if "measured" in message:
                        return measurement_from_wire(message["measured"])
        raise BackendCrashed("The engine gave no measurement.", "Try again.")

    async def close(self) -> None:
        child, self._child, self.info = self._child, None, None
        if child:
            child.release()
            await asyncio.to_thread(child.end)

    # -- one command at a time

    @contextlib.asynccontextmanager
    async def _my_turn(self) -> AsyncGenerator[None, None]:
        """Alone with the child, and after a stop whose waiting was itself cancelled."""
        async with self._turn:
            if self._stopping:
                await asyncio.shield(self._stopping)
                self._stopping = None
            yield

    def _must_load(self) -> bool:
        if self._child and self.info and self._child.ended():
            self._forget(self._child)
        if self._child is None:
            self.info = None  # a message read while it was closed may have set it
        return self.info is None

    async def _loaded(self) -> AsyncGenerator[Event, None]:
        """Events of loading; nothing when the model is loaded."""
        if not self._must_load():
            return
        if self._died:
            self._died = False
            yield Notice("The engine had stopped; it is being started again.")
        self.start()
        try:
            async with contextlib.aclosing(self._messages(0)) as messages:
                async for message in messages:
                    if "loaded" in message:
                        self.info = ModelInfo(name=self.model, **message["loaded"])
                    elif "event" in message:
                        yield event_from_wire(message["event"])
        except (BackendCrashed, ModelUnavailable) as error:
            await self.close()
            self._died = False
            raise await self._explained(error) from error
        finally:
            if not self.info:  # stopped while loading: nothing to keep
                await self.close()

    async def _explained(self, error: RouterError) -> ModelUnavailable:
        why = await asyncio.to_thread(self._diagnose)
        next_step = "" if why else "Choose another model, or see `localchat weights info`."
        return ModelUnavailable(f"{self.model} cannot be loaded: {why or error.message}", next_step)

    async def _command(self, do: str, **fields: Any) -> AsyncGenerator[dict[str, Any], None]:
        self._last_id += 1
        number = self._last_id
        command = {"do": do, "id": number, **fields}
        async with contextlib.aclosing(self._messages(number, command)) as messages:
            async for message in messages:
                yield message

    async def _messages(
        self, number: int, command: dict[str, Any] | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """The child's messages about command ``number``, until the one that ends it.

        Left early, it stops the computation before it returns.
        """
        child = self._child
        if child is None:  # between loading and asking
            raise BackendCrashed("The model was closed.", "Send again.")
        over = False
        try:
            if command:
                await child.send_async(command)
            while not over:
                message = await child.receive()
                if message is None:
                    over = True
                    reason = await asyncio.to_thread(child.last_words)
                    self._forget(child)
                    raise BackendCrashed(reason, "Send again: a new one is started.")
                if message["id"] != number:
                    continue  # of a command stopped earlier
                over = any(key in message for key in LAST_WORDS)
                if "failed" in message:
                    raise _error(message["failed"])
                yield message
        finally:
            if not over:
                self._stopping = asyncio.create_task(self._stop(child, number))
                await asyncio.shield(self._stopping)

    async def _stop(self, child: _Child, number: int) -> None:
        try:
            async with asyncio.timeout(STOP_PATIENCE_S):
                await child.send_async({"do": "stop", "id": number})
                while (message := await child.receive()) is not None:
                    if message["id"] == number and any(key in message for key in LAST_WORDS):
                        return
        except (TimeoutError, OSError):
            pass
        self._forget(child)
        await asyncio.to_thread(child.end)

    def _forget(self, child: _Child) -> None:
        child.kill()
        if self._child is child:  # and not closed, or another one, meanwhile
            self._child, self.info, self._died = None, None, True


def _error(failed: dict[str, Any]) -> RouterError:
    match failed["kind"]:
        case "overflow":
            return ContextOverflow(*failed["counts"])
        case "invalid":
            return InvalidRequest(failed["message"], failed["next"])
        case _:
            return ModelUnavailable(failed["message"])


class _Child:
    """The process and its socket. Its output goes to a file that dies with it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the child
        self._opening: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] | None = None
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "localchat.engines.worker", str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # a Ctrl+C in the terminal is the parent's to handle
                env=_environment(),
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def ended(self) -> bool:
        return self._process.poll() is not None

    def send(self, message: dict[str, Any]) -> None:
        """Small messages only, before the event loop has the socket."""
        self._socket.sendall(_line(message))

    async def send_async(self, message: dict[str, Any]) -> None:
        _, writer = await self._streams()
        try:
            writer.write(_line(message))
            await writer.drain()
        except (ConnectionError, OSError):
            pass  # it died: receive() tells

    async def receive(self) -> dict[str, Any] | None:
        """The next message, None when the child is gone."""
        reader, _ = await self._streams()
        try:
            line = await reader.readline()
        except (ConnectionError, OSError):
            return None
        if not line.endswith(b"\n"):
            return None
        message: dict[str, Any] = json.loads(line)
        return message

    async def _streams(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._opening is None:
            connecting = asyncio.open_unix_connection(sock=self._socket, limit=LINE_LIMIT)
            self._opening = asyncio.ensure_future(connecting)
        return await asyncio.shield(self._opening)  # half open, it could not be closed

    def last_words(self) -> str:
        """Why it died: its signal or exit code and the last line it printed."""
        try:
            code = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        if code == -signal.SIGKILL:
            return "The engine was killed, for example because memory ran out."
        how = f"with {signal.Signals(-code).name}" if code < 0 else f"with exit code {code}"
        try:
            self._log.seek(max(0, self._log.seek(0, os.SEEK_END) - 4096))
            lines = self._log.read().decode("utf-8", "replace").strip().splitlines()
        except ValueError:  # it was let go meanwhile
            return "The engine was closed."
        return f"The engine ended {how}{': ' + lines[-1][:300] if lines else ''}."

    def kill(self) -> None:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(STOP_PATIENCE_S)  # at once, unless it hangs in the kernel
        self.release()
        self._log.close()

    def release(self) -> None:
        """Close our end: it exits, and who reads it hears the end. In the loop's thread; idempotent."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._opening is None:
            self._socket.close()
        else:  # asyncio's to close, as soon as it is open
            self._opening.add_done_callback(_abort)

    def end(self) -> None:
        """Wait until it has gone, once released; blocks."""
        try:
            self._process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def _abort(opening: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    if not opening.cancelled() and not opening.exception():
        opening.result()[1].transport.abort()


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def _environment() -> dict[str, str]:
    """numpy's thread pool is of no use there and costs memory and start-up."""
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
