"""A simulated cloud of our own, in a child process: started when it is first needed, gone when we are.

Owns the child: its start, the address it says, its end. What it serves is
``localchat.commands.cloud``'s business; who asks it is a client like any other.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import IO, Protocol

from router.backend import Backend
from router.errors import CloudUnreachable
from router.request import ChatRequest, Event, Notice

ITS_OWN = {"LOCALCHAT_ROUTING_MODE": "local", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
START_PATIENCE_S = 30.0  # imports, on a machine that is busy; its model loads afterwards
END_PATIENCE_S = 3.0


class Client(Backend, Protocol):
    """What asks a cloud."""

    async def close(self) -> None: ...


class CloudChild:
    """``localchat cloud``, on any free port of the loopback."""

    def __init__(self, options: tuple[str, ...] = ()) -> None:
        """``options`` of ``localchat cloud``, but for host and port. Starts nothing."""
        self._options = options
        self._process: asyncio.subprocess.Process | None = None
        self._log: IO[bytes] | None = None
        self._url = ""
        self._turn = asyncio.Lock()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> str:
        """Its base URL, as soon as it listens. A child that died is replaced. Raises CloudUnreachable."""
        async with self._turn:
            if self._url and self._process is not None and self._process.returncode is None:
                return self._url
            await self._end()
            try:
                async with asyncio.timeout(START_PATIENCE_S):
                    self._url = await self._begin()
            except TimeoutError:
                self._url = ""
            if not self._url:
                why = self._last_words()
                await self._end()
                raise CloudUnreachable(
                    f"The simulated cloud does not start{': ' + why if why else '.'}",
                    "Try `localchat cloud`, or let the local model answer.",
                    may_pass=False,
                )
            return self._url

    async def _begin(self) -> str:
        # It stops at the end of its standard input, which comes when this process ends, in any way.
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the child
        self._process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-P",
                "-m",
                "localchat",
                "cloud",
                "--port",
                "0",
                "--with-parent",
                *self._options,
            ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,  # a Ctrl+C in the terminal is the parent's to handle
            env={
                **os.environ,
                "LOCALCHAT_ROUTING_MODE": "local",
                "OPENBLAS_NUM_THREADS": "1",
                "PYTHONUNBUFFERED": "1",
            },
        )
        assert self._process.stdout
        line = await self._process.stdout.readline()
        return line.decode("ascii", "replace").strip()

    def _last_words(self) -> str:
        """The last line it printed."""
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read(4096).decode("utf-8", "replace").strip().splitlines()
        return lines[-1].removeprefix("localchat: ")[:300] if lines else ""

    async def close(self) -> None:
        """End it. Idempotent; a later start begins a new one."""
        async with self._turn:
            await self._end()

    async def _end(self) -> None:
        process, self._process, self._url = self._process, None, ""
        log, self._log = self._log, None
        if process is not None and process.returncode is None:
            assert process.stdin
            process.stdin.close()
            try:
                async with asyncio.timeout(END_PATIENCE_S):
                    await process.wait()
            except TimeoutError:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if log is not None:
            log.close()


class SimulatedCloudBackend:
    """A cloud client whose cloud is started with its first request. A :class:`~router.backend.Backend`."""

    def __init__(self, model: str, child: CloudChild, connect: Callable[[str], Client]) -> None:
        """``connect`` makes a client for a base URL."""
        self.model = model
        self._child = child
        self._connect = connect
        self._client: Client | None = None
        self._client_url = ""

    async def stream(self, request: ChatRequest) -> AsyncGenerator[Event, None]:
        if self._child.pid is None:
            yield Notice("Starting the simulated cloud; its model loads.")
        url = await self._child.start()
        if self._client is None or url != self._client_url:
            if self._client is not None:
                await self._client.close()
            self._client, self._client_url = self._connect(url), url
        async with aclosing(self._client.stream(request)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """End the client and the child. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.close()
        await self._child.close()
