"""``localchat cloud`` as a process: its first line, its end, and that nothing of it is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from localchat.simulated_cloud import CloudChild
from router.errors import CloudUnreachable
from tests.localchat.command_line import PATIENCE_S, command, environment, run, spawn

SCRIPTED = ("cloud", "--text", "scripted", "--port", "0")


@contextmanager
def cloud(home: Path, *words: str, **options: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A running one and its base URL."""
    child = subprocess.Popen(
        command(*SCRIPTED, *words),
        stdin=options.get("stdin", subprocess.DEVNULL),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home),
    )
    assert child.stdout
    assert child.stderr
    try:
        yield child, child.stdout.readline().decode().strip()
    finally:
        child.kill()
        child.wait()
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream:
                stream.close()


def ask(url: str, **headers: str) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 2}
    return httpx.post(url + "/chat/completions", json=body, headers=headers, trust_env=False)


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def wait_until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.02)


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_its_first_line_is_its_url_and_a_signal_ends_it(
    tmp_path: Path, sent: signal.Signals, code: int
) -> None:
    with cloud(tmp_path, "--load", "5", "--key", "secret") as (child, url):
        assert (
            ask(url, authorization="Bearer secret").json()["choices"][0]["message"]["content"]
            == "This answer"
        )
        assert ask(url).status_code == 401
        child.send_signal(sent)
        out, err = child.communicate(timeout=PATIENCE_S)
        assert (child.returncode, out) == (code, b"")
        assert b"SIMULATED" in err
        assert b"Traceback" not in err


def test_a_port_in_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        outcome = spawn(tmp_path, "cloud", "--text", "scripted", "--port", port)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.count("\n") == 1
    assert f"127.0.0.1:{port} cannot be listened on: Address already in use" in outcome.err
    assert "--port" in outcome.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--host", "0.0.0.0"), "--key"),
        (("--key", "two words"), "--key"),
        (("--port", "70000"), "--port"),
        (("--rate-limit", "0"), "--rate-limit"),
        (("--gpu", "abacus"), "abacus"),
        (("--policy", "anarchy"), "anarchy"),
        (("--model", "gpt-5"), "gpt-5"),
        (("--load", "-1"), "load"),
        (("--fault", "earthquake"), "earthquake"),
        (("--text-model", "tiny"), "--text-model"),
    ],
)
def test_wrong_usage_is_named(tmp_path: Path, words: tuple[str, ...], named: str) -> None:
    outcome = run(tmp_path, *SCRIPTED, *words)
    assert (outcome.code, outcome.out) == (2, "")
    assert named in outcome.err


def test_a_text_model_that_there_is_not_is_named(tmp_path: Path) -> None:
    outcome = run(tmp_path, "cloud", "--port", "0", "--text-model", "no-such-model")
    assert outcome.code != 0
    assert "no-such-model" in outcome.err


def test_it_stops_when_its_owner_is_gone(tmp_path: Path) -> None:
    with cloud(tmp_path, "--with-parent", stdin=subprocess.PIPE) as (child, url):
        assert ask(url).status_code == 200
        assert child.stdin
        child.stdin.close()
        child.stdin = None
        assert child.wait(PATIENCE_S) == 0


# -- as a child of this program


async def test_a_child_is_started_once_and_ended() -> None:
    child = CloudChild(("--text", "scripted"))
    first, second = await asyncio.gather(child.start(), child.start())
    assert first == second
    pid = child.pid
    assert pid
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(first.removesuffix("/v1") + "/health")).status_code == 200
    await child.close()
    await child.close()
    assert gone(pid)


async def test_a_child_that_was_killed_is_replaced() -> None:
    child = CloudChild(("--text", "scripted"))
    await child.start()
    assert child.pid
    os.kill(child.pid, signal.SIGKILL)
    await asyncio.to_thread(wait_until, lambda: gone(child.pid or 0))
    await asyncio.sleep(0.05)
    again = await child.start()
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(again.removesuffix("/v1") + "/health")).status_code == 200
    await child.close()


async def test_a_child_that_does_not_start_says_why() -> None:
    child = CloudChild(("--text", "scripted", "--gpu", "abacus"))
    with pytest.raises(CloudUnreachable, match="abacus"):
        await child.start()
    assert child.pid is None


OWNER = """
import asyncio, os, signal, sys
from localchat.simulated_cloud import CloudChild

async def main():
    child = CloudChild(("--text", "scripted"))
    print(await child.start(), child.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_kill_9_of_the_owner_leaves_no_cloud_behind(tmp_path: Path) -> None:
    owner = subprocess.run(
        command(script=OWNER), capture_output=True, env=environment(tmp_path), timeout=PATIENCE_S, check=False
    )
    assert owner.returncode == -signal.SIGKILL
    url, pid = owner.stdout.decode().split()
    wait_until(lambda: gone(int(pid)))
    with pytest.raises(httpx.ConnectError):
        ask(url)


@pytest.mark.real_model
async def test_the_default_model_writes_and_its_engine_ends_with_the_cloud() -> None:
    child = CloudChild()
    url = await child.start()
    body = {
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 6,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as client:
        response = await client.post(url + "/chat/completions", json=body)
        older = await client.post(url + "/completions", json={"prompt": "Once upon a", "max_tokens": 3})
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: {")]
    usage = json.loads(lines[-1])["usage"]
    assert usage["simulated"]["text_model"].startswith("smollm2")
    assert usage["simulated"]["estimated"] is False
    assert 1 <= usage["completion_tokens"] <= 6
    assert older.json()["choices"][0]["text"].strip()
    assert child.pid
    engines = psutil.Process(child.pid).children()
    assert engines
    await child.close()
    await asyncio.to_thread(wait_until, lambda: all(gone(engine.pid) for engine in engines))
