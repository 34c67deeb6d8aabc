"""Processes that die and processes that share: what each has saved stays saved."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from localchat.history import History

STREAM = """
import sys, time
from pathlib import Path
from localchat.history import History
history = History(Path(sys.argv[1]))
conversation = history.new_conversation()
question = history.add(conversation.id, None, "user", "question")
answer = history.add(conversation.id, question.id, "assistant", "", state="streaming")
for n in range(100_000):
    history.update(answer.id, content="word " * n, state="streaming")
    print(n, flush=True)
    time.sleep(float(sys.argv[2]))
"""

CHAT = """
import sys
from pathlib import Path
from localchat.history import History
print("ready", flush=True)
sys.stdin.readline()
with History(Path(sys.argv[1])) as history:
    conversation_id = int(sys.argv[2]) or history.new_conversation().id
    parent = None
    for n in range(60):
        parent = history.add(conversation_id, parent, "user", f"message {n}").id
        history.update(parent, content=f"message {n}!", state="done")
"""


def spawn(script: str, *args: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, args)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def run_together(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=30)
    assert [process.returncode for process in processes] == [0] * len(processes)


@pytest.mark.parametrize("pause_s", [0.05, 0])
def test_a_killed_stream_loses_at_most_its_last_save(tmp_path: Path, pause_s: float) -> None:
    path = tmp_path / "h.db"
    with History(path) as history:
        earlier = history.add(history.new_conversation().id, None, "user", "earlier")
    with spawn(STREAM, path, pause_s) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "5\n":
            pass
        process.send_signal(signal.SIGKILL)
        acknowledged = [5, *map(int, process.stdout.read().split("\n")[:-1])][-1]
    with History(path, now=lambda: time.time() + 6) as history:
        latest = history.latest()
        assert latest is not None
        assert latest.leaf_id is not None
        question, answer = history.path(latest.leaf_id)
        assert answer.content.count("word ") in (acknowledged, acknowledged + 1)
        assert (question.state, answer.state) == ("done", "interrupted")
        assert history.message(earlier.id).content == "earlier"
        assert history._db.select(tuple, "PRAGMA integrity_check", ()) == [("ok",)]


def test_processes_may_create_and_fill_a_store_at_once(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    run_together(*(spawn(CHAT, path, 0) for _ in range(3)))
    with History(path) as history:
        conversations = history.conversations()
        assert [info.message_count for info in conversations] == [60] * 3
        for info in conversations:
            assert info.leaf_id is not None
            said = [message.content for message in history.path(info.leaf_id)]
            assert said == [f"message {n}!" for n in range(60)]


def test_processes_may_write_to_the_same_conversation(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with History(path) as history:
        conversation = history.new_conversation()
        run_together(*(spawn(CHAT, path, conversation.id) for _ in range(2)))
        assert history.conversation(conversation.id).message_count == 120
        assert [len(history.path(history.leaf_below(root.id))) for root in history.children(None, 1)] == [
            60,
            60,
        ]
