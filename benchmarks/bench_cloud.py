"""The simulated cloud and the client of any cloud: served pace, CPU per token, OpenAI's SDK, 200 at once.

Pace: 64 clients stream from ``localchat``'s server in a process of its own, with synthetic users beside
them. Each chunk says when it was due; what is counted is how much later it was read. The server and the
reader share this machine's cores, so a part of the lateness is the reader's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.record import Record, arguments, recording

CLIENTS, LOAD_PER_S, PACE_S = 64, 4.0, 20.0
ANSWER_TOKENS = (100, 400)
SDK_REQUESTS = 200
CLIENT_TOKENS = {"burst": 20_000, "paced": 2_000}
GAP_S = 0.002  # between paced tokens
ROOT = Path(__file__).parents[1]


# -- servers, in processes of their own


@contextmanager
def server(kind: str, *words: str) -> Iterator[str]:
    """This module as a server; its base URL."""
    command = [sys.executable, "-m", "benchmarks.bench_cloud", "--serve", kind, *words]
    child = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
    assert child.stdout
    with child, child.stdout:
        try:
            yield child.stdout.readline().decode().strip()
        finally:
            child.terminate()
            child.wait()


async def serve_simulated() -> None:
    """As ``localchat cloud --text scripted``, with a text that is long enough."""
    from router.simcloud.answering import SimulatedModel
    from router.simcloud.deployment import Deployment
    from router.simcloud.live import LiveServer
    from router.simcloud.server import SimulatedCloud, serve
    from router.simcloud.text_source import ScriptedText
    from router.simcloud.users import Users

    model = SimulatedModel(LiveServer(Deployment(), Users(LOAD_PER_S, 1)), ScriptedText(times=5))
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(f"http://127.0.0.1:{listening.getsockname()[1]}/v1", flush=True)
    await serve(SimulatedCloud(model), listening, asyncio.Event())


async def serve_tokens(kind: str) -> None:
    """Chunks as OpenAI sends them: as fast as they are read, or one at a time."""
    from router.cloud.wire import Chunk, Reply, chunk_to_json
    from router.request import Delta, Usage

    def chunk(piece: Chunk) -> bytes:
        event = f"data: {json.dumps(chunk_to_json(Reply('chatcmpl-1', 0, 'm'), piece))}\n\n".encode()
        return b"%x\r\n%b\r\n" % (len(event), event)

    count = CLIENT_TOKENS[kind]
    token = chunk(Chunk((Delta(" word"),)))
    end = chunk(Chunk(finish_reason="stop")) + chunk(Chunk(usage=Usage(10, 0, count)))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.partition(b"content-length:")[2].partition(b"\r")[0]))
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for _ in range(count):
            writer.write(token)
            await writer.drain()
            if kind == "paced":
                await asyncio.sleep(GAP_S)
        writer.write(end + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1", flush=True)
    await listening.serve_forever()


# -- pace


@dataclass(slots=True)
class Reader:
    """``CLIENTS`` connections, read by one selector: as lean as a reader can be."""

    url: str
    until_s: float = 0.0
    pieces: list[tuple[float, bytes]] = field(default_factory=list)
    draw: random.Random = field(default_factory=lambda: random.Random(1))

    def request(self) -> bytes:
        body = json.dumps(
            {
                "messages": [{"role": "user", "content": "Tell me something long. " * 8}],
                "stream": True,
                "max_tokens": self.draw.randint(*ANSWER_TOKENS),
                "stream_options": {"include_simulated_time": True},
            }
        ).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def run(self) -> None:
        """Every client asks again as soon as it has its answer."""
        selector = selectors.DefaultSelector()
        host, _, port = self.url.removeprefix("http://").removesuffix("/v1").partition(":")
        waiting = [socket.create_connection((host, int(port))) for _ in range(CLIENTS)]
        began_s = time.monotonic()
        starts_s = sorted(self.draw.uniform(0, 3) for _ in waiting)
        self.until_s = began_s + PACE_S
        while waiting or selector.get_map():
            while waiting and time.monotonic() - began_s >= starts_s[-len(waiting)]:
                selector.register(waiting[0], selectors.EVENT_READ)
                waiting.pop(0).sendall(self.request())
            for key, _ in selector.select(0.01 if waiting else 10):
                assert isinstance(key.fileobj, socket.socket)
                self._read(selector, key.fileobj)

    def _read(self, selector: selectors.BaseSelector, client: socket.socket) -> None:
        piece = client.recv(1 << 16)
        self.pieces.append((time.time(), piece))
        if b"[DONE]" not in piece:
            assert piece, "the server ended a connection"
        elif time.monotonic() < self.until_s:
            client.sendall(self.request())
        else:
            selector.unregister(client)
            client.close()

    def late_ms(self) -> np.ndarray:
        """Of every token: how long after its simulated time it was read."""
        found = []
        for at_s, piece in self.pieces:
            due = (part.partition(b"}")[0] for part in piece.split(b'"simulated_time_s": ')[1:])
            found += [1000 * (at_s - float(each)) for each in due]
        return np.array(found)


def pace(record: Record) -> None:
    with server("simulated") as url:
        reader = Reader(url)
        reader.run()
    late = reader.late_ms()
    note = f"{late.size:,} tokens, {CLIENTS} clients, {LOAD_PER_S:g} synthetic requests/s"
    record.row("token off its simulated time, p99", float(np.quantile(abs(late), 0.99)), "ms", "≤ 5", note)
    record.row("token after its simulated time, p99", float(np.quantile(late, 0.99)), "ms")
    record.row("token after its simulated time, p50", float(np.quantile(late, 0.5)), "ms")
    record.row("token after its simulated time, largest", float(late.max()), "ms")
    record.row("token before its simulated time, most", float(-late.min()), "ms", "≤ 5")


# -- the client's own CPU


async def read_all(url: str) -> int:
    from router.cloud.client.backend import CloudBackend
    from router.cloud.keys import FoundKey
    from router.cloud.target import make_target
    from router.request import ChatRequest, Delta, Message

    target = make_target("custom", base_url=url, model="m")
    backend = CloudBackend(target, lambda: FoundKey(None, "none"))
    request = ChatRequest((Message("user", "hi"),))
    tokens = sum([1 async for event in backend.stream(request) if isinstance(event, Delta)])
    await backend.close()
    return tokens


async def read_bare(url: str) -> int:
    """The floor: asyncio's own reader, which is only woken."""
    host, _, port = url.removeprefix("http://").removesuffix("/v1").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
    tokens = 0
    while piece := await reader.read(1 << 16):
        tokens += piece.count(b" word")
    writer.close()
    return tokens


def client_cpu(record: Record, repeats: int) -> None:
    for kind, how in (("burst", "as fast as it reads"), ("paced", f"a wake-up every {1000 * GAP_S:g} ms")):
        samples, floor = [], []
        for _ in range(repeats):
            with server(kind) as url:
                asyncio.run(read_all(url))  # imports, and the first connection
                samples.append(cpu_ms_per_token(read_all(url)))
                floor.append(cpu_ms_per_token(read_bare(url)))
        record.row(f"client CPU per token, {kind}", samples, "ms", "≤ 0.1", how)
        record.row(f"of it asyncio's bare reader, {kind}", floor, "ms")


def cpu_ms_per_token(reading: Coroutine[None, None, int]) -> float:
    began_s = time.process_time()
    tokens = asyncio.run(reading)
    return 1000 * (time.process_time() - began_s) / tokens


# -- OpenAI's SDK


async def sdk_at_once(url: str) -> tuple[int, float]:
    import openai

    began_s = time.monotonic()
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0, timeout=60) as client:

        async def ask() -> bool:
            stream = await client.chat.completions.create(
                model="llama-3-8b-simulated",
                messages=[{"role": "user", "content": "Hello"}],
                max_tokens=30,
                stream=True,
                stream_options={"include_usage": True},
            )
            chunks = [chunk async for chunk in stream]
            return bool(chunks[-1].usage and chunks[-1].usage.completion_tokens == 30)

        whole = await asyncio.gather(*(ask() for _ in range(SDK_REQUESTS)))
    return sum(whole), time.monotonic() - began_s


def sdk(record: Record) -> None:
    with server("simulated") as url:
        whole, seconds = asyncio.run(sdk_at_once(url))
    note = f"{SDK_REQUESTS} at once, 30 tokens each"
    record.row("answers through OpenAI's SDK that came whole", whole, "", f"= {SDK_REQUESTS}", note)
    record.row("until the last of them", seconds, "s")


def main() -> None:
    parser = arguments(__doc__, repeats=3)
    parser.add_argument("--serve", choices=("simulated", "burst", "paced"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve_simulated() if args.serve == "simulated" else serve_tokens(args.serve))
        return
    with recording("cloud", args) as record:
        pace(record)
        client_cpu(record, args.repeats)
        sdk(record)


if __name__ == "__main__":
    main()
