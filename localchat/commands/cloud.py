"""``localchat cloud``: a simulated cloud as an OpenAI-compatible server.

Its base URL is the first line on standard output; everything else goes to standard error.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from localchat.errors import LocalchatError, UsageError
from localchat.flags import INTERRUPTED

if TYPE_CHECKING:
    from router.simcloud.server import SimulatedCloud

PORT = 8377  # free in IANA's list of 2024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--host", default="127.0.0.1", metavar="H", help="address to listen on, default: this machine only")
    add("--port", type=int, default=PORT, metavar="N", help="0: any that is free; default: %(default)s")
    add("--key", action="append", default=[], metavar="K", help="clients must send it; may be repeated")
    add("--rate-limit", type=int, metavar="N", help="requests a minute from each client")
    text = parser.add_argument_group("text")
    text.add_argument("--text", choices=("local", "scripted"), default="local", help="who writes the words")
    text.add_argument("--text-model", metavar="M", help="a name from `localchat weights list`, or a path")
    simulation = parser.add_argument_group(
        "simulation", "each can be changed while it runs: PATCH /simulation"
    )
    add = simulation.add_argument
    add("--gpu", default="a100", metavar="G", help="a100, h100, rtx4090 ... default: %(default)s")
    add("--policy", default="vllm", metavar="P", help="how it batches, default: %(default)s")
    add(
        "--model",
        default="llama-3.1-8b",
        metavar="NAME",
        help="whose speed it has, default: %(default)s",
    )
    add("--load", type=float, default=0.0, metavar="RATE", help="synthetic users' requests/s, default: none")
    add("--seed", type=int, default=0, metavar="N", help="of the synthetic users")
    add(
        "--fault",
        default="none",
        metavar="F",
        help="500, 429:2, latency:3, cut:5, malformed ...; 500*2: twice",
    )
    parser.add_argument(
        "--with-parent", action="store_true", help="stop when standard input ends, as it does with its owner"
    )


def run(args: argparse.Namespace) -> int:
    from localchat.compose.clouds import CloudPlan, build_simulated_cloud
    from localchat.paths import find_paths
    from localchat.settings import load_settings
    from router.errors import InvalidSimulation

    _check(args)
    paths = find_paths()
    flags = {"model": args.text_model}
    settings = load_settings(paths.settings, os.environ, flags)
    plan = CloudPlan(
        scripted=args.text == "scripted",
        keys=tuple(args.key),
        per_minute=args.rate_limit,
        gpu=args.gpu,
        policy=args.policy,
        model=args.model,
        load_per_s=args.load,
        seed=args.seed,
        fault=args.fault,
    )
    with _listen(args.host, args.port) as listening:
        try:
            cloud = build_simulated_cloud(settings, paths, plan)
        except InvalidSimulation as error:
            raise UsageError(error.message, error.next_step) from None
        return asyncio.run(_serve(cloud, listening, args))


def _check(args: argparse.Namespace) -> None:
    if not args.key and not _is_loopback(args.host):
        raise UsageError(
            f"{args.host} can be reached from elsewhere.", "Give a --key that clients must send."
        )
    if any(not key.isascii() or not key.isprintable() or " " in key or not key for key in args.key):
        raise UsageError("A key has no spaces and is plain ASCII.", "Choose another --key.")
    if not 0 <= args.port < 65536:
        raise UsageError("--port is between 0 and 65535.")
    if args.rate_limit is not None and args.rate_limit < 1:
        raise UsageError("--rate-limit is at least 1.")
    if args.text_model and args.text == "scripted":
        raise UsageError("--text-model writes no scripted text.", "Leave one of them out.")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        step = "Choose another --port; 0 takes any that is free." if port else "Choose another --host."
        raise LocalchatError(f"{host}:{port} cannot be listened on: {error.strerror}.", step) from None


async def _serve(cloud: SimulatedCloud, listening: socket.socket, args: argparse.Namespace) -> int:
    from router.simcloud.server import serve

    stop, codes = asyncio.Event(), []

    def end(code: int) -> None:
        codes.append(code)
        stop.set()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, end, INTERRUPTED)
    loop.add_signal_handler(signal.SIGTERM, end, 0)
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    print(f"http://{shown}:{port}/v1", flush=True)
    server = cloud.model.server
    _say(f"SIMULATED: {server.model} on {server.gpu}, policy {server.deployment.policy}.")
    _say(f"Its words are by {cloud.model.source.model}. Ctrl+C stops it.")
    async with contextlib.AsyncExitStack() as stack:
        if args.with_parent:
            watching = asyncio.create_task(_parent_gone(end))
            stack.callback(watching.cancel)
        await serve(cloud, listening, stop)
    return codes[0] if codes else 1


async def _parent_gone(end: Callable[[int], None]) -> None:
    """Returns when standard input ends: whoever started this is gone, however it went."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass
    end(0)


def _say(text: str) -> None:
    print(f"localchat: {text}", file=sys.stderr, flush=True)
