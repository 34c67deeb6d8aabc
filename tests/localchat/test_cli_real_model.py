"""``localchat ask`` with the model that comes with it, as processes: the whole way of an answer."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path

import jsonschema
import pytest

from localchat.history import History
from tests.localchat.command_line import PATIENCE_S, Outcome, command, environment, spawn

pytestmark = pytest.mark.real_model

QUICK = ["--temperature", "0", "--threads", "1", "--prefill-threads", "2"]
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"enum": ["Paris", "Rome"]},
        "population": {"type": "integer", "minimum": 1, "maximum": 99},
    },
    "required": ["city", "population"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all, so that the model is hashed once."""
    return tmp_path_factory.mktemp("home")


def ask(home: Path, *words: str, stdin: bytes = b"") -> Outcome:
    return spawn(home, "ask", *QUICK, *words, stdin=stdin)


def test_a_piped_question_is_answered_and_the_conversation_goes_on(home: Path) -> None:
    piped = b"Reply with a greeting. \0 \xed\xa0\x80 \xff <|im_end|>"
    first = ask(home, "--json", "--max-tokens", "8", "Hello!", stdin=piped)
    assert (first.code, first.err) == (0, "")
    shown = json.loads(first.out)
    assert {"text", "model", "route", "finish_reason", "usage", "timings", "predicted", "decision"} <= set(
        shown
    )
    assert (shown["cost_usd"], shown["cache"], shown["simulated"]) == (0.0, None, None)
    assert 0 < shown["predicted"]["low"] < shown["predicted"]["high"]
    assert set(shown["usage"]) == {"prompt_tokens", "cached_tokens", "completion_tokens"}
    assert set(shown["timings"]) == {"load_s", "ttft_s", "prefill_tokens_per_s", "decode_tokens_per_s"}
    assert shown["text"].strip()
    assert (shown["model"], shown["route"]) == ("smollm2-135m-instruct-q4_1", "local")
    assert shown["finish_reason"] in ("stop", "length")
    assert 0 < shown["usage"]["completion_tokens"] <= 8
    assert shown["usage"]["prompt_tokens"] > 20
    assert shown["timings"]["load_s"] > 0
    assert shown["timings"]["ttft_s"] >= shown["timings"]["load_s"]

    second = ask(home, "-c", "--events", "--max-tokens", "4", "And again?")
    assert second.code == 0
    events = [json.loads(line) for line in second.out.splitlines()]
    assert [events[0]["event"], events[1]["event"], events[-1]["event"]] == ["started", "routed", "finished"]
    assert events[-1]["usage"]["prompt_tokens"] > shown["usage"]["prompt_tokens"]
    assert sum(len(e["scores"]) for e in events if e["event"] == "delta") in range(1, 6)

    with History(home / "data/history.db") as history:
        (info,) = history.conversations()
        said = history.path(info.leaf_id or 0)
    assert [m.role for m in said] == ["user", "assistant"] * 2
    assert said[0].content == "Hello!\n\nReply with a greeting. \0 \ufffd\ufffd\ufffd \ufffd <|im_end|>"
    assert [m.state for m in said] == ["done"] * 4
    assert (said[1].content, said[1].model) == (shown["text"], shown["model"])


def test_an_answer_to_a_schema_is_json_that_follows_it(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(SCHEMA))
    outcome = ask(home, "--incognito", "--schema", str(file), "--max-tokens", "60", "Name a city as JSON.")
    assert (outcome.code, outcome.err) == (0, "")
    jsonschema.validate(json.loads(outcome.out), SCHEMA)


def test_a_schema_that_is_none_is_refused_in_words(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text('{"type": 7}')
    outcome = ask(home, "--incognito", "--schema", str(file), "Name a city.")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("localchat: The JSON schema cannot be used: ")
    assert outcome.err.count("\n") <= 3


def test_interrupting_stops_the_model_and_keeps_what_it_said(tmp_path: Path) -> None:
    words = ["ask", *QUICK, "--regex", "(tick tock )+", "Say tick tock for ever."]
    with subprocess.Popen(
        command(*words),
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as process:
        assert process.stdout
        first = process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (130, b"")
    with History(tmp_path / "data/history.db", now=lambda: time.time() + 6) as history:
        latest = history.latest()
        assert latest
        reply = history.path(latest.leaf_id or 0)[-1]
    assert reply.state == "stopped"
    assert (first + rest).decode().rstrip("\n") == reply.content


def test_room_is_made_by_the_models_own_count(tmp_path: Path) -> None:
    with History(tmp_path / "data/history.db") as history:
        info = history.new_conversation(system="Be brief.")
        parent = None
        for name in ("alpha", "beta", "gamma"):
            question = history.add(info.id, parent, "user", f"{name} " * 40)
            parent = history.add(info.id, question.id, "assistant", "Yes.").id
    words = ["-c", "--ctx", "128", "--max-tokens", "4", "--on-overflow", "drop", "--json"]
    outcome = ask(tmp_path, *words, "Say hello.")
    assert outcome.code == 0
    assert "Leaving out" in outcome.err
    assert "“alpha alpha" in outcome.err
    prompt = json.loads(outcome.out)["usage"]["prompt_tokens"]
    assert prompt <= 128
    with History(tmp_path / "data/history.db") as history:
        tree = history.tree(info.id)
    assert tree[0].excluded
    assert not tree[4].excluded
